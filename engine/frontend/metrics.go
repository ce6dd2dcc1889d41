package frontend

import (
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/httpserve"
)

// Buckets as vLLM has them, with finer ones below 300 ms, where one-pass answers are.
var (
	secondsBuckets = []float64{.0005, .001, .0025, .005, .01, .02, .04, .06, .08, .1, .15, .2, .3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920}
	tokensBuckets  = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5}
	choicesBuckets = []float64{1, 2, 5, 10, 20}
)

// metrics are published under vLLM's names, which routers, autoscalers and dashboards know.
type metrics struct {
	handler http.Handler         // of all frontends on the port
	own     *prometheus.Registry // of this one

	promptTokens, generationTokens, cachedTokens prometheus.Counter
	finished                                     map[string]prometheus.Counter // by reason
	refused                                      *prometheus.CounterVec        // by status
	e2e, firstToken, betweenTokens               prometheus.Observer
	queue, inference, prefill, decode            prometheus.Observer
	promptLength, computedLength, outputLength   prometheus.Observer
	maxTokens, n                                 prometheus.Observer
}

// newMetrics counts what this frontend does in a registry of its own, labelled with its name where
// several share the port. What the scheduler counts is the same in all of them, and published once.
func newMetrics(cfg Config, pool *client.Client, connections func() httpserve.Counts) *metrics {
	own, server := prometheus.NewRegistry(), prometheus.NewRegistry()
	registry := prometheus.Registerer(own)
	if len(cfg.Siblings) > 1 {
		registry = prometheus.WrapRegistererWith(prometheus.Labels{"frontend": cfg.Name}, own)
	}
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	labels := prometheus.Labels{"model_name": cfg.Models[0], "engine": "0"}
	all := append(siblings(cfg.Siblings, cfg.Socket), own, server)
	m := &metrics{handler: promhttp.HandlerFor(all, promhttp.HandlerOpts{}), own: own, finished: map[string]prometheus.Counter{}}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "vllm:" + name, Help: help, ConstLabels: labels})
		registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64) prometheus.Observer {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "vllm:" + name, Help: help, Buckets: buckets, ConstLabels: labels})
		registry.MustRegister(h)
		return h
	}
	m.promptTokens = counter("prompt_tokens_total", "Prompt tokens of answered requests.")
	m.generationTokens = counter("generation_tokens_total", "Tokens generated.")
	m.cachedTokens = counter("prompt_tokens_cached_total", "Prompt tokens found in the prefix cache.")
	m.e2e = histogram("e2e_request_latency_seconds", "From a request's arrival to its answer.", secondsBuckets)
	m.firstToken = histogram("time_to_first_token_seconds", "From a request's arrival to its first token.", secondsBuckets)
	m.betweenTokens = histogram("inter_token_latency_seconds", "Between two tokens of an answer.", secondsBuckets)
	m.queue = histogram("request_queue_time_seconds", "Time in the scheduler's queue.", secondsBuckets)
	m.inference = histogram("request_inference_time_seconds", "From the start of a request's first pass to its last token.", secondsBuckets)
	m.prefill = histogram("request_prefill_time_seconds", "Time in passes until a request's first token.", secondsBuckets)
	m.decode = histogram("request_decode_time_seconds", "From a request's first token to its last.", secondsBuckets)
	m.promptLength = histogram("request_prompt_tokens", "Prompt tokens of a request.", tokensBuckets)
	m.computedLength = histogram("request_prefill_kv_computed_tokens", "Prompt tokens of a request that were not in the prefix cache.", tokensBuckets)
	m.outputLength = histogram("request_generation_tokens", "Tokens generated for a request.", tokensBuckets)
	m.maxTokens = histogram("request_params_max_tokens", "max_tokens of a request.", tokensBuckets)
	m.n = histogram("request_params_n", "n of a request.", choicesBuckets)
	success := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "vllm:request_success_total", Help: "Finished requests by reason.", ConstLabels: labels}, []string{"finished_reason"})
	for _, reason := range []string{"stop", "length", "abort", "error"} {
		m.finished[reason] = success.WithLabelValues(reason)
	}
	m.refused = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "prefillonly:refused_requests_total", Help: "Requests refused or failed, by HTTP status.", ConstLabels: labels}, []string{"status"})
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "prefillonly:open_jobs", Help: "Jobs of a frontend without their last result.", ConstLabels: labels},
		func() float64 { n, _ := pool.Jobs(); return float64(n) })
	beyond := prometheus.NewCounterFunc(prometheus.CounterOpts{Name: rejections, Help: rejectionsHelp, ConstLabels: withLabel(labels, "reason", "max_open_jobs")},
		func() float64 { _, n := pool.Jobs(); return float64(n) })
	registry.MustRegister(success, m.refused, open, beyond)
	server.MustRegister(newStateCollector(pool, labels), newDeviceCollector(pool))
	registerConnections(registry, labels, connections)
	return m
}

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
	} {
		own := labels
		if c.bound != "" {
			own = withLabel(labels, "bound", c.bound)
		}
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "prefillonly:" + c.name, Help: c.help, ConstLabels: own},
			func() float64 { return float64(c.value(counts())) }))
	}
}

// observe counts a finished exchange.
func (m *metrics) observe(x *exchange) {
	if x.status >= 400 {
		m.refused.WithLabelValues(strconv.Itoa(x.status)).Inc()
	}
	if x.jobs == 0 {
		return
	}
	switch {
	case x.status == statusClientClosed || x.refusedWith == "client_closed_request":
		m.finished["abort"].Inc()
		return
	case x.refusedWith != "":
		m.finished["error"].Inc()
		return
	case x.finish == "":
		return // rendered, not run
	}
	m.finished[x.finish].Inc()
	m.promptTokens.Add(float64(x.promptTokens))
	m.generationTokens.Add(float64(x.completionTokens))
	m.cachedTokens.Add(float64(x.cachedTokens))
	now := time.Now()
	m.e2e.Observe(now.Sub(x.start).Seconds())
	m.firstToken.Observe(x.firstToken.Sub(x.start).Seconds())
	decode := x.lastToken.Sub(x.firstToken)
	m.queue.Observe(x.queued.Seconds())
	m.inference.Observe((x.prefilled + decode).Seconds())
	m.prefill.Observe(x.prefilled.Seconds())
	m.decode.Observe(decode.Seconds())
	m.promptLength.Observe(float64(x.promptTokens))
	m.computedLength.Observe(float64(x.promptTokens - x.cachedTokens))
	m.outputLength.Observe(float64(x.completionTokens))
	m.maxTokens.Observe(float64(x.maxTokens))
	m.n.Observe(float64(x.choices))
}

// stateCollector publishes the scheduler's last Welcome.
type stateCollector struct {
	pool                                 *client.Client
	running, waiting, usage, info        *prometheus.Desc
	queries, hits, preemptions, rejected *prometheus.Desc
	hostQueries, hostHits                *prometheus.Desc
	passes, retries, evictions, lost     *prometheus.Desc
	executors, passTokens                *prometheus.Desc
}

func newStateCollector(pool *client.Client, labels prometheus.Labels) *stateCollector {
	desc := func(name, help string, variable ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, variable, labels)
	}
	return &stateCollector{
		pool:        pool,
		running:     desc("vllm:num_requests_running", "Jobs in passes."),
		waiting:     desc("vllm:num_requests_waiting", "Jobs waiting for a pass."),
		usage:       desc("vllm:kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1."),
		info:        desc("vllm:cache_config_info", "Shape of the prefix cache.", "block_size", "num_gpu_blocks"),
		queries:     desc("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache."),
		hits:        desc("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache."),
		hostQueries: desc("vllm:external_prefix_cache_queries_total", "Prompt tokens looked up in host memory, as the device does not hold them."),
		hostHits:    desc("vllm:external_prefix_cache_hits_total", "Prompt tokens loaded from host memory."),
		preemptions: desc("vllm:num_preemptions_total", "Passes paused for a shorter job."),
		rejected:    desc(rejections, rejectionsHelp, "reason"),
		passes:      desc("prefillonly:passes_total", "Passes run."),
		retries:     desc("prefillonly:retries_total", "Jobs run again after their executor died."),
		evictions:   desc("prefillonly:kv_evictions_total", "KV blocks evicted."),
		lost:        desc("prefillonly:executors_lost_total", "Executors that died."),
		executors:   desc("prefillonly:executors", "Executors alive that serve the model."),
		passTokens:  desc("vllm:iteration_tokens_total", "Tokens that a pass computes."),
	}
}

// Describe implements prometheus.Collector.
func (s *stateCollector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, out) }

// Collect implements prometheus.Collector.
func (s *stateCollector) Collect(out chan<- prometheus.Metric) {
	state := s.pool.State()
	open, _ := s.pool.Jobs()
	value := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	value(s.running, prometheus.GaugeValue, float64(state.Running))
	// Jobs that came since the last Welcome are waiting too; routers must not see an idle server.
	value(s.waiting, prometheus.GaugeValue, float64(max(state.Waiting, open-state.Running)))
	value(s.usage, prometheus.GaugeValue, state.CacheUsed)
	value(s.info, prometheus.GaugeValue, 1, strconv.Itoa(state.BlockTokens), strconv.Itoa(state.NumBlocks))
	value(s.executors, prometheus.GaugeValue, float64(state.Serving))
	for reason, count := range map[string]uint64{
		"max_num_queued_reqs": state.Stats.RefusedJobs, "max_num_queued_tokens": state.Stats.RefusedTokens,
		"max_queue_time": state.Stats.RefusedTime,
	} {
		value(s.rejected, prometheus.CounterValue, float64(count), reason)
	}
	s.collectPasses(out, state)
	for _, c := range []struct {
		desc  *prometheus.Desc
		count uint64
	}{
		{s.queries, state.Stats.PrefixQueries}, {s.hits, state.Stats.PrefixHits},
		{s.hostQueries, state.Stats.HostQueries}, {s.hostHits, state.Stats.HostHits},
		{s.preemptions, state.Stats.Preemptions},
		{s.passes, state.Stats.Passes}, {s.retries, state.Stats.Retries},
		{s.evictions, state.Stats.Evictions}, {s.lost, state.Stats.ExecutorLost},
	} {
		value(c.desc, prometheus.CounterValue, float64(c.count))
	}
}

// collectPasses publishes the scheduler's histogram of passes.
func (s *stateCollector) collectPasses(out chan<- prometheus.Metric, state *client.State) {
	total, buckets := uint64(0), map[float64]uint64{}
	for i, count := range state.PassTokens {
		total += count
		if i < len(wire.PassTokenBounds) {
			buckets[wire.PassTokenBounds[i]] = total
		}
	}
	out <- prometheus.MustNewConstHistogram(s.passTokens, total, float64(state.Stats.ComputedTokens), buckets)
}
