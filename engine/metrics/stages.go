package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/prefillonly/prefillonly/internal/processors"
)

// stageBuckets are bounds of what stages take and wait, in seconds.
var stageBuckets = prometheus.ExponentialBuckets(0.0005, 2, 16)

// registerProcessors publishes what is done beside the devices' passes: the load of the host, once, and the stages of this
// process.
func registerProcessors(own, host prometheus.Registerer, labels prometheus.Labels, pool *processors.Pool) {
	for _, g := range []struct {
		name, help string
		value      func() int
	}{
		{"cpu_slots", "Stages (JSON, tokens, pictures, grammars, frames) that the processes of the host run at a time, one more where it is short.", pool.Slots},
		{"cpu_stages_running", "Stages that run in these slots.", func() int { _, running := pool.Load(); return running }},
		{"cpu_stages_waiting", "Stages that wait for a slot.", func() int { waiting, _ := pool.Load(); return waiting }},
	} {
		host.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "prefillonly:" + g.name, Help: g.help, ConstLabels: labels},
			func() float64 { return float64(g.value()) }))
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "prefillonly:" + name, Help: help, ConstLabels: labels, Buckets: stageBuckets}, []string{"kind"})
		own.MustRegister(v)
		return v
	}
	took := histogram("cpu_stage_seconds", "Seconds that stages of a kind held a slot.")
	waited := histogram("cpu_stage_wait_seconds", "Seconds that stages of a kind waited for a slot.")
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "prefillonly:cpu_stages_dropped_total", Help: "Stages that did not begin, by why: their deadline came too near (late), before anything was done for the request (refused), or whoever asked left.", ConstLabels: labels,
	}, []string{"kind", "reason"})
	own.MustRegister(dropped)
	pool.Observe(func(o processors.Observation) {
		waited.WithLabelValues(o.Kind).Observe(o.Waited.Seconds())
		if o.Dropped != "" {
			dropped.WithLabelValues(o.Kind, string(o.Dropped)).Inc()
			return
		}
		took.WithLabelValues(o.Kind).Observe(o.Took.Seconds())
	})
}
