//go:build cuda

package driver

import (
	"time"

	"gorgonia.org/cu"
)

// laps are the moments noted by Mark, and events to use again.
type laps struct {
	marked, spare []cu.Event
}

// Mark notes the moment when all work enqueued so far is done, without waiting for it.
func (g *gpu) Mark() {
	g.enter()
	var event cu.Event
	if n := len(g.laps.spare); n > 0 {
		event, g.laps.spare = g.laps.spare[n-1], g.laps.spare[:n-1]
	} else {
		var err error
		if event, err = cu.MakeEvent(cu.DefaultEvent); err != nil {
			g.check("event", err)
			return
		}
	}
	g.check("event", event.Record(cu.Stream{}))
	g.laps.marked = append(g.laps.marked, event)
}

// Laps waits and returns the times from each Mark to the next since the last call, by the GPU's clock.
func (g *gpu) Laps() ([]time.Duration, error) {
	if err := g.Sync(); err != nil {
		return nil, err
	}
	var times []time.Duration
	for i := 1; i < len(g.laps.marked); i++ {
		milliseconds, err := g.laps.marked[i-1].Elapsed(g.laps.marked[i])
		if err != nil {
			return nil, err
		}
		times = append(times, time.Duration(milliseconds*float64(time.Millisecond)))
	}
	g.laps.spare = append(g.laps.spare, g.laps.marked...)
	g.laps.marked = nil
	return times, nil
}

// free gives the events back.
func (l *laps) free() {
	for _, e := range append(l.spare, l.marked...) {
		_ = cu.DestroyEvent(&e)
	}
	*l = laps{}
}
