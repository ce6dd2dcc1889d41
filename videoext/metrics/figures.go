// Package metrics counts what video streams of a server do, and publishes it.
package metrics

import (
	"slices"
	"sync"
	"time"

	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/streams"
)

// buckets are the upper bounds of the latency's histogram in seconds.
var buckets = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10}

// Spent is where the time of a stream's frames went.
type Spent struct {
	Decode, Scale, Read time.Duration // of this process's processor: to decode, to make inputs, to read outputs
	Turn                time.Duration // waiting for a processor's turn
	Queue, Device       time.Duration // in the pool: waiting for a pass, and inside passes
}

// Add adds more.
func (s *Spent) Add(more Spent) {
	s.Decode, s.Scale, s.Read = s.Decode+more.Decode, s.Scale+more.Scale, s.Read+more.Read
	s.Turn, s.Queue, s.Device = s.Turn+more.Turn, s.Queue+more.Queue, s.Device+more.Device
}

// Counted are the figures of a stream since its process began.
type Counted struct {
	streams.Counts
	Bytes   [2]uint64 // that came, on each stream
	Latency []uint64  // frames by buckets, the last one without a bound
	Seconds float64   // of latency together
	Spent   Spent

	Gradients Gradients
}

// Gradients are those of a network, for the knobs of a camera.
type Gradients struct {
	Asked, Late, Failed uint64        // late ones are dropped, or came after their interval; there is nothing of failed ones
	Feedback            uint64        // bytes of those that the camera was told
	Computing           time.Duration // in passes of them, which Spent has, too
}

// CountGradient counts a gradient that was asked for.
func (f *Figures) CountGradient(g Gradients) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := &f.c.Gradients
	all.Asked, all.Late, all.Failed = all.Asked+g.Asked, all.Late+g.Late, all.Failed+g.Failed
	all.Feedback, all.Computing = all.Feedback+g.Feedback, all.Computing+g.Computing
}

// Figures count. Their methods are safe for concurrent use; the zero value has counted nothing.
type Figures struct {
	mu sync.Mutex
	c  Counted // guarded by mu
}

// Now are the figures so far.
func (f *Figures) Now() Counted {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.c
	c.Latency = slices.Clone(c.Latency)
	return c
}

// Sent counts bytes of video that came.
func (f *Figures) Sent(stream method.Stream, bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.c.Bytes[stream] += uint64(bytes)
}

// Spend adds to what was spent.
func (f *Figures) Spend(more Spent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.c.Spent.Add(more)
}

// Count takes in results that were given, and the counts of all.
func (f *Figures) Count(results []streams.Result, counts streams.Counts) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.c.Counts = counts
	if f.c.Latency == nil {
		f.c.Latency = make([]uint64, len(buckets)+1)
	}
	for i := range results {
		if !results[i].Final {
			continue
		}
		seconds := results[i].Latency.Seconds()
		at, _ := slices.BinarySearch(buckets, seconds)
		f.c.Latency[at]++
		f.c.Seconds += seconds
	}
}

// MeanLatency is in milliseconds.
func (c *Counted) MeanLatency() float64 { return ratio(1000*c.Seconds, c.Frames) }

// BoxesPerFrame is how many things were found in a frame, in the mean.
func (c *Counted) BoxesPerFrame() float64 { return ratio(float64(c.Things), c.Frames) }

// MeanScore is that of the things that were found.
func (c *Counted) MeanScore() float64 { return ratio(c.Score, c.Things) }

func ratio(sum float64, of uint64) float64 { return sum / float64(max(of, 1)) }
