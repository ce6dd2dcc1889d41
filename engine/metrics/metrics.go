// Package metrics publishes what a frontend and its pool count, under the names that vLLM and NVIDIA's DCGM
// exporter have for it, which routers, autoscalers and dashboards know.
package metrics

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/internal/httpserve"
	"github.com/prefillonly/prefillonly/internal/processors"
	"github.com/prefillonly/prefillonly/internal/tracing"
)

// Config is what the figures are of.
type Config struct {
	Name   string   // of the frontend
	Models []string // that it begins with
	// Socket is where this frontend tells its figures to others on the same port, and Siblings the sockets
	// of all of them; empty where it is alone.
	Socket   string
	Siblings []string
	Spans    func() tracing.Counts // what has become of the spans of requests; nil: they have none
	Video    string                // where the process that keeps video streams tells its own; empty: there is none
	// Asker is the header that tells that process who asks; a key is told of its own streams alone.
	Asker func(r *http.Request) http.Header
}

// atOnce is how many models have their figures, which are 0, before their first request.
const atOnce = 16

// firstModels are the models that do.
func (c *Config) firstModels() []string {
	if len(c.Models) > atOnce {
		return nil
	}
	return c.Models
}

// Metrics are the figures of one frontend, and what it knows of the pool. Its methods are safe for concurrent use.
type Metrics struct {
	// set once
	cfg      Config
	shared   prometheus.Gatherers // of all processes that tell everyone the same
	video    *source              // nil: there is none
	own      *prometheus.Registry // of this one
	requests *requestVectors
	refused  *prometheus.CounterVec // by status

	models sync.Map // *Requests by model
}

// New makes them. What this frontend does is counted in a registry of its own, labelled with its name where
// several share the port. What the scheduler counts is the same in all of them, and published once. Figures of the
// pool as a whole carry the model's name where it began with one alone.
func New(cfg Config, pool *client.Client, connections func() httpserve.Counts) *Metrics {
	own, server := prometheus.NewRegistry(), prometheus.NewRegistry()
	registry := prometheus.Registerer(own)
	if len(cfg.Siblings) > 1 {
		registry = prometheus.WrapRegistererWith(prometheus.Labels{"frontend": cfg.Name}, own)
	}
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	labels := prometheus.Labels{"engine": "0"}
	whole := labels
	if len(cfg.Models) == 1 {
		whole = withLabel(labels, "model_name", cfg.Models[0])
	}
	m := &Metrics{
		cfg: cfg, own: own, shared: append(newSources(cfg.Socket, cfg.Siblings...), own, server),
		requests: newRequestVectors(registry, labels),
		refused:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "prefillonly:refused_requests_total", Help: "Requests refused or failed, by HTTP status.", ConstLabels: whole}, []string{"status"}),
	}
	if cfg.Video != "" {
		m.video = newSource(cfg.Video)
	}
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "prefillonly:open_jobs", Help: "Jobs of a frontend without their last result.", ConstLabels: whole},
		func() float64 { n, _ := pool.Jobs(); return float64(n) })
	beyond := prometheus.NewCounterFunc(prometheus.CounterOpts{Name: rejections, Help: rejectionsHelp, ConstLabels: withLabel(whole, "reason", "max_open_jobs")},
		func() float64 { _, n := pool.Jobs(); return float64(n) })
	registry.MustRegister(m.refused, open, beyond)
	server.MustRegister(newModelCollector(pool, labels, cfg.firstModels()), newPoolCollector(pool, whole), newDeviceCollector(pool))
	registerConnections(registry, whole, connections)
	registerProcessors(registry, server, whole, processors.Shared())
	if cfg.Spans != nil {
		registerSpans(registry, labels, cfg.Spans)
	}
	for _, model := range cfg.firstModels() {
		m.Of(model)
	}
	return m
}

// Handler answers with the figures of all frontends on the port, of the pool and of the video streams that who asks may see.
func (m *Metrics) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all := m.shared
		if m.video != nil {
			all = append(slices.Clone(all), m.video.askedBy(m.cfg.Asker(r)))
		}
		promhttp.HandlerFor(all, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(w, r)
	})
}

// Of are the figures of a model's requests.
func (m *Metrics) Of(model string) *Requests {
	if r, found := m.models.Load(model); found {
		return r.(*Requests)
	}
	r, _ := m.models.LoadOrStore(model, m.requests.forModel(model))
	return r.(*Requests)
}

// Refused counts a request that was answered with an error's status.
func (m *Metrics) Refused(status int) { m.refused.WithLabelValues(strconv.Itoa(status)).Inc() }

// Jobs are refused by the scheduler's bounds, and by one of each frontend's own.
const (
	rejections     = "vllm:admission_rejections_total"
	rejectionsHelp = "Jobs refused by an admission bound, which is the reason."
)

// withLabel is labels and one more.
func withLabel(labels prometheus.Labels, name, value string) prometheus.Labels {
	own := maps.Clone(labels)
	own[name] = value
	return own
}

// registerConnections publishes the figures of the listening socket's connections.
func registerConnections(registry prometheus.Registerer, labels prometheus.Labels, counts func() httpserve.Counts) {
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "prefillonly:http_connections", Help: "Open connections of clients.", ConstLabels: labels,
	}, func() float64 { return float64(counts().Open) }))
	for _, c := range []struct {
		name, help, bound string
		value             func(httpserve.Counts) uint64
	}{
		{"http_connections_refused_total", "Connections turned away, by the bound that they were beyond.", string(httpserve.BoundAll), func(c httpserve.Counts) uint64 { return c.RefusedAll }},
		{"http_connections_refused_total", "Connections turned away, by the bound that they were beyond.", string(httpserve.BoundAddress), func(c httpserve.Counts) uint64 { return c.RefusedAddress }},
		{"http_connections_closed_idle_total", "Idle connections closed to make room for new ones.", "", func(c httpserve.Counts) uint64 { return c.ClosedIdle }},
		{"http2_connections_cut_total", "Connections of HTTP/2 cut off for frames that ask for nothing.", "", func(c httpserve.Counts) uint64 { return c.CutFrames }},
		{"http_answers_cut_total", "Answers cut off since nobody took them in while too many bytes waited.", "", func(c httpserve.Counts) uint64 { return c.CutStill }},
	} {
		own := labels
		if c.bound != "" {
			own = withLabel(labels, "bound", c.bound)
		}
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "prefillonly:" + c.name, Help: c.help, ConstLabels: own},
			func() float64 { return float64(c.value(counts())) }))
	}
}
