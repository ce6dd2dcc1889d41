package metrics

import (
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

// observe adds a figure to a histogram, with the trace that it is of.
func observe(to prometheus.Observer, seconds float64, of prometheus.Labels) {
	if exemplars, ok := to.(prometheus.ExemplarObserver); ok && of != nil {
		exemplars.ObserveWithExemplar(seconds, of)
		return
	}
	to.Observe(seconds)
}

// exemplar are the labels of a trace; nil of none.
func exemplar(trace string) prometheus.Labels {
	if trace == "" {
		return nil
	}
	return prometheus.Labels{"trace_id": trace}
}
