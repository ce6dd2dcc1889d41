package live

import (
	"sync"

	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/streams"
)

// buckets are the upper bounds of the latency's histogram in seconds.
var buckets = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10}

// counted are the figures of a stream since its process began.
type counted struct {
	streams.Counts
	Bytes   [2]uint64 // of the segments that a camera sent, as files, on each stream
	Latency []uint64  // frames by buckets, the last one without a bound
	Seconds float64   // of latency together
}

// figures count. Their methods are safe for concurrent use.
type figures struct {
	mu sync.Mutex
	c  counted // guarded by mu
}

func (f *figures) now() counted {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.c
	c.Latency = append([]uint64(nil), c.Latency...)
	return c
}

func (f *figures) sent(stream method.Stream, bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.c.Bytes[stream] += uint64(bytes)
}

func (f *figures) count(results []streams.Result, counts streams.Counts) {
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
		at := 0
		for at < len(buckets) && seconds > buckets[at] {
			at++
		}
		f.c.Latency[at]++
		f.c.Seconds += seconds
	}
}

// latency is the mean in milliseconds, boxes how many a frame has, and score the mean of theirs.
func (c *counted) latency() float64 { return ratio(1000*c.Seconds, c.Frames) }
func (c *counted) boxes() float64   { return ratio(float64(c.Things), c.Frames) }
func (c *counted) score() float64   { return ratio(c.Score, c.Things) }

func ratio(sum float64, of uint64) float64 { return sum / float64(max(of, 1)) }
