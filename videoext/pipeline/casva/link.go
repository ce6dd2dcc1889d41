package casva

import "math"

// Link is what a sensor's intervals wait for. Bytes, or whatever an interval costs, go through it one after the other.
type Link struct{ waiting float64 }

// Send sends an interval over a link of so many bytes an interval: the delay until the last of them is through, and what then waits when the next one is there, in intervals.
func (l *Link) Send(bytes, rate float64) (delay, lag float64) {
	l.waiting += bytes
	delay = l.waiting / rate
	l.waiting = max(l.waiting-rate, 0)
	return delay, l.waiting / rate
}

// patience is how much may wait, in intervals, when an interval is there, for that to be sent.
const patience = 2

// Jammed says that so much waits that an interval is left out, in which time passes.
func (l *Link) Jammed(rate float64) bool { return l.waiting > patience*rate }

const (
	memory = 4   // intervals that are remembered
	unit   = 5e4 // bytes whose logarithm is 0
	least  = 1   // bytes, for the logarithm of none
	most   = 4   // intervals of lag, above which all are the same
	scale  = 0.5 // of logarithms, so that what is usual is from -2 to 2
)

// History is what a sensor knows of its stream before it prepares an interval.
type History struct {
	Rates, Sizes [memory]float64 // of the link and of what was sent, in bytes an interval, the last first
	Lag          float64         // intervals that wait
	Choice       []float64       // places of the last configuration in the policy's ladders, from 0 to 1
	Sure         float64         // what the server said of how sure its network is, from 0 to 1
}

// Begin is the history of a stream whose link has been measured.
func BeginHistory(knobs int, rate float64) *History {
	h := &History{Choice: make([]float64, knobs)}
	for i := range h.Rates {
		h.Rates[i] = rate
	}
	return h
}

// Sent takes in what was done.
func (h *History) Sent(p *Policy, choice []int, bytes, rate, lag, sure float64) {
	copy(h.Rates[1:], h.Rates[:memory-1])
	copy(h.Sizes[1:], h.Sizes[:memory-1])
	h.Rates[0], h.Sizes[0], h.Lag, h.Sure = rate, bytes, lag, sure
	for i, place := range choice {
		h.Choice[i] = float64(place) / float64(max(len(p.Ladders[i])-1, 1))
	}
}

func stateSize(knobs int) int { return 2*memory + 2 + Content + knobs }

// State is the policy's input: the history, and what the sensor tells of the interval's content.
func (h *History) State(content []float64) []float64 {
	state := make([]float64, 0, stateSize(len(h.Choice)))
	for i := range h.Rates {
		state = append(state, scale*math.Log(max(h.Rates[i], least)/unit), scale*math.Log(max(h.Sizes[i], least)/unit))
	}
	state = append(state, min(h.Lag, most), h.Sure)
	for i := range Content {
		state = append(state, math.Sqrt(content[i]))
	}
	return append(state, h.Choice...)
}
