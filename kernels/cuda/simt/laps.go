package simt

import "time"

// Mark notes the moment: all work so far is done.
func (d *Device) Mark() { d.marks = append(d.marks, time.Now()) }

// Laps returns the times from each Mark to the next since the last call.
func (d *Device) Laps() ([]time.Duration, error) {
	var times []time.Duration
	for i := 1; i < len(d.marks); i++ {
		times = append(times, d.marks[i].Sub(d.marks[i-1]))
	}
	d.marks = nil
	return times, d.Sync()
}
