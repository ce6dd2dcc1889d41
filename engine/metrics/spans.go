package metrics

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/prefillonly/prefillonly/internal/tracing"
)

// registerSpans publishes what has become of spans.
func registerSpans(registry prometheus.Registerer, labels prometheus.Labels, counts func() tracing.Counts) {
	for result, of := range map[string]func(tracing.Counts) uint64{
		"sent":    func(c tracing.Counts) uint64 { return c.Sent },
		"dropped": func(c tracing.Counts) uint64 { return c.Dropped },
		"failed":  func(c tracing.Counts) uint64 { return c.Failed },
	} {
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "prefillonly:trace_spans_total", Help: "Spans of requests: sent to the collector, dropped for want of room, or failed to be sent.",
			ConstLabels: withLabel(labels, "result", result),
		}, func() float64 { return float64(of(counts())) }))
	}
}

// latency is a histogram of seconds whose buckets name a trace that fell into them, each once a second at most: more would cost much
// and nobody would see them.
type latency struct {
	prometheus.Observer
	named []atomic.Int64 // when a bucket's trace was noted, in milliseconds of Unix time
}

func newLatency(of prometheus.Observer) latency {
	return latency{of, make([]atomic.Int64, len(secondsBuckets)+1)}
}

// observeDuration adds a figure of a trace, which may be empty.
func (l latency) observeDuration(took time.Duration, trace string) {
	seconds := took.Seconds()
	if trace != "" {
		bucket, _ := slices.BinarySearch(secondsBuckets, seconds)
		now, last := time.Now().UnixMilli(), l.named[bucket].Load()
		if exemplars, ok := l.Observer.(prometheus.ExemplarObserver); ok && now-last >= 1000 && l.named[bucket].CompareAndSwap(last, now) {
			exemplars.ObserveWithExemplar(seconds, prometheus.Labels{"trace_id": trace})
			return
		}
	}
	l.Observe(seconds)
}
