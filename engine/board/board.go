// Package board is what shows an operator how a server does: figures made of readings of what a frontend knows, as a page, with its
// files for browsers, and as text for terminals.
package board

import (
	"cmp"
	"embed"
	"maps"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/metrics"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/processors"
)

// Files are what the page refers to as /ui/NAME.
//
//go:embed board.css board.js
var Files embed.FS

// Reading is what was known at a time, in seconds.
type Reading struct {
	At      float64
	Pool    *client.State
	Totals  map[string]metrics.Totals // by frontend
	Open    int                       // jobs of this frontend
	Trouble string                    // that the server is in; empty: none

	Processors Processors
	Merges     []metrics.Merge
}

// Processors are those of the host, and what waits for them.
type Processors struct {
	Slots, Running, Waiting int               // of all processes
	Kinds                   []processors.Kind // of stages, of this frontend
}

// Board makes figures of readings. The first ones have no rates.
type Board struct {
	past []Reading // oldest first
}

// window is over how many seconds rates and latencies are told, as far back as there are readings.
const window = 10

// Figures are those of the page and of the text.
type Figures struct {
	Version    string
	Trouble    string
	Span       float64 // seconds that rates and latencies are of
	Waiting    int
	Running    int // jobs in passes
	Requests   float64
	Tokens     float64  // computed a second
	P50, P99   *float64 // milliseconds; nil: no request was answered
	Failed     float64
	CacheUsed  float64  // percent
	CacheHit   *float64 // percent of the tokens that were looked up
	Models     []Model
	Executors  []Executor
	Processors Processors
	Merges     []metrics.Merge
	Points     []*float64 // of the charts
}

// Model is one that is served.
type Model struct {
	Name, State, Reason string
	Bytes               uint64
	Executors           int
	Waiting, Running    int
	Lowest              int // jobs of the lowest priority, waiting and in passes
	CacheUsed           float64
	CacheHit            *float64
	Passes              float64 // a second
}

// Executor is a process with its device.
type Executor struct {
	wire.ExecutorState
	Name string // of its device
}

// Step takes a reading, and is what there is to show.
func (b *Board) Step(now Reading) Figures {
	b.past = append(b.past, now)
	for len(b.past) > 2 && b.past[1].At <= now.At-window {
		b.past = b.past[1:]
	}
	before := &b.past[0]
	f := Figures{Trouble: now.Trouble, Span: max(now.At-before.At, 1e-3), Processors: now.Processors, Merges: now.Merges}
	f.count(before, &now)
	f.fillLatencies(before, &now)
	for _, e := range now.Pool.Executors {
		f.Executors = append(f.Executors, Executor{e, cmp.Or(e.GPU, e.Device)})
	}
	f.Points = []*float64{&f.Requests, floatPointer(f.Waiting), floatPointer(f.Running), f.P50, f.P99, &f.CacheUsed, f.CacheHit}
	return f
}

func floatPointer(n int) *float64 {
	x := float64(n)
	return &x
}

// count fills in what is counted by model.
func (f *Figures) count(before, now *Reading) {
	stats, old := byModel(now.Pool), byModel(before.Pool)
	if before.Pool.Epoch != now.Pool.Epoch {
		old = nil // another scheduler, whose counters began anew
	}
	queries, hits, lowest := uint64(0), uint64(0), 0
	for _, name := range slices.Sorted(maps.Keys(now.Pool.Models)) {
		served, s, o := now.Pool.Models[name], stats[name], old[name]
		m := Model{
			Name: name, State: served.State.String(), Reason: served.Reason, Bytes: served.Bytes, Executors: served.Executors,
			Waiting: s.Waiting, Running: s.Running, CacheUsed: 100 * s.CacheUsed, CacheHit: sharePercent(counterDelta(s.PrefixHits, o.PrefixHits), counterDelta(s.PrefixQueries, o.PrefixQueries)),
			Lowest: s.Lowest, Passes: float64(counterDelta(s.Passes, o.Passes)) / f.Span,
		}
		f.Models = append(f.Models, m)
		lowest += m.Lowest
		f.Waiting, f.Running, f.CacheUsed = f.Waiting+m.Waiting, f.Running+m.Running, max(f.CacheUsed, m.CacheUsed)
		f.Tokens += float64(counterDelta(s.ComputedUnits, o.ComputedUnits)) / f.Span
		queries, hits = queries+counterDelta(s.PrefixQueries, o.PrefixQueries), hits+counterDelta(s.PrefixHits, o.PrefixHits)
	}
	f.Waiting = max(f.Waiting, now.Open-f.Running-lowest) // those that came since the pool told
	f.CacheHit = sharePercent(hits, queries)
}

func byModel(s *client.State) map[string]wire.ModelStats {
	all := map[string]wire.ModelStats{}
	for _, m := range s.Stats {
		all[m.Model] = m
	}
	return all
}

// counterDelta is what a counter counted after it had another value, from 0 if it began anew.
func counterDelta(now, then uint64) uint64 {
	if now < then {
		return now
	}
	return now - then
}

// sharePercent is a part in percent; nil of nothing.
func sharePercent(part, whole uint64) *float64 {
	if whole == 0 {
		return nil
	}
	x := 100 * float64(part) / float64(whole)
	return &x
}

// fillLatencies fills in what frontends have counted. Of one that was not heard of before, nothing is known of the time between.
func (f *Figures) fillLatencies(before, now *Reading) {
	counts := map[float64]float64{}
	for name, is := range now.Totals {
		was, known := before.Totals[name]
		switch {
		case !known:
			continue
		case is.Answered < was.Answered || is.Refused < was.Refused:
			was = metrics.Totals{} // it was started again
		}
		f.Requests += (is.Answered - was.Answered) / f.Span
		f.Failed += (is.Refused - was.Refused) / f.Span
		for bound, n := range is.Latency {
			counts[bound] += n - was.Latency[bound]
		}
	}
	f.P50, f.P99 = quantile(counts, 0.5), quantile(counts, 0.99)
}

// quantile is that of cumulative counts by upper bound in seconds, in milliseconds: between two bounds as if values lay evenly there.
func quantile(counts map[float64]float64, q float64) *float64 {
	bounds := slices.Sorted(maps.Keys(counts))
	if len(bounds) == 0 || counts[bounds[len(bounds)-1]] <= 0 {
		return nil
	}
	rank, low, below := q*counts[bounds[len(bounds)-1]], 0.0, 0.0
	for _, high := range bounds {
		if counts[high] >= rank && counts[high] > below {
			if math.IsInf(high, 1) {
				high = low
			}
			ms := 1000 * (low + (high-low)*(rank-below)/(counts[high]-below))
			return &ms
		}
		low, below = high, counts[high]
	}
	return nil
}
