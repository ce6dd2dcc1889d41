package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// figure is one that is read from the scheduler's last Welcome.
type figure[Of any] struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(Of) float64
}

// poolCollector publishes the figures that no model is to be held to.
type poolCollector struct {
	pool     *client.Client
	rejected *prometheus.Desc
	figures  []figure[*wire.Stats]
}

func newPoolCollector(pool *client.Client, labels prometheus.Labels) *poolCollector {
	c := &poolCollector{pool: pool, rejected: prometheus.NewDesc(rejections, rejectionsHelp, []string{"reason"}, labels)}
	add := func(name, help string, kind prometheus.ValueType, of func(*wire.Stats) float64) {
		c.figures = append(c.figures, figure[*wire.Stats]{prometheus.NewDesc(name, help, nil, labels), kind, of})
	}
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	add("vllm:num_preemptions_total", "Passes paused for a shorter job.", counter, func(s *wire.Stats) float64 { return float64(s.Preemptions) })
	add("prefillonly:retries_total", "Jobs run again after their executor died.", counter, func(s *wire.Stats) float64 { return float64(s.Retries) })
	add("prefillonly:executors_lost_total", "Executors that died.", counter, func(s *wire.Stats) float64 { return float64(s.ExecutorLost) })
	add("prefillonly:nested_passes_total", "Passes run inside others.", counter, func(s *wire.Stats) float64 { return float64(s.Nested) })
	add("prefillonly:weight_bytes_limit", "Bytes that executors have room for, of weights.", gauge, func(s *wire.Stats) float64 { return float64(s.WeightBytes) })
	add("prefillonly:weight_bytes_used", "Bytes of weights on devices.", gauge, func(s *wire.Stats) float64 { return float64(s.WeightUsed) })
	return c
}

// Describe implements prometheus.Collector.
func (c *poolCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.rejected
	for _, f := range c.figures {
		out <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (c *poolCollector) Collect(out chan<- prometheus.Metric) {
	stats := c.pool.State().Pool
	for reason, count := range map[string]uint64{
		"max_num_queued_reqs": stats.RefusedJobs, "max_num_queued_tokens": stats.RefusedTokens,
		"max_queue_time": stats.RefusedTime, "utilisation": stats.RefusedUtilisation,
	} {
		out <- prometheus.MustNewConstMetric(c.rejected, prometheus.CounterValue, float64(count), reason)
	}
	for _, f := range c.figures {
		out <- prometheus.MustNewConstMetric(f.desc, f.kind, f.of(&stats))
	}
}

// modelState is what is known of a model's jobs.
type modelState struct {
	stats *wire.ModelStats
	open  int // this client's
}

// modelCollector publishes the figures of each model: the states of all, and the rest of those that have had a job.
type modelCollector struct {
	pool             *client.Client
	first            []string // models that need not have had one
	state, info      *prometheus.Desc
	bytes, executors *prometheus.Desc
	passes           *prometheus.Desc
	figures          []figure[modelState]
}

func newModelCollector(pool *client.Client, labels prometheus.Labels, first []string) *modelCollector {
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"model_name"}, more...), labels)
	}
	c := &modelCollector{
		pool: pool, first: first,
		state:     desc("prefillonly:model_state", "1 for the state that the model is in.", "state"),
		bytes:     desc("prefillonly:model_weight_bytes", "Bytes of the model's weights on one executor."),
		executors: desc("prefillonly:executors", "Executors alive that serve the model."),
		info:      desc("vllm:cache_config_info", "Shape of the prefix cache.", "block_size", "num_gpu_blocks"),
		passes:    desc("vllm:iteration_tokens_total", "Tokens that a pass computes."),
	}
	gauge := func(name, help string, of func(modelState) float64) {
		c.figures = append(c.figures, figure[modelState]{desc(name, help), prometheus.GaugeValue, of})
	}
	counter := func(name, help string, of func(*wire.ModelStats) uint64) {
		c.figures = append(c.figures, figure[modelState]{desc(name, help), prometheus.CounterValue, func(m modelState) float64 { return float64(of(m.stats)) }})
	}
	gauge("vllm:num_requests_running", "Jobs in passes.", func(m modelState) float64 { return float64(m.stats.Running) })
	// Jobs that came since the last Welcome are waiting too; routers must not see an idle server.
	gauge("vllm:num_requests_waiting", "Jobs waiting for a pass.", func(m modelState) float64 {
		return float64(max(m.stats.Waiting, m.open-m.stats.Running-m.stats.Lowest))
	})
	gauge("prefillonly:num_requests_lowest", "Jobs of the lowest priority, waiting or in passes, which the other two do not count.", func(m modelState) float64 { return float64(m.stats.Lowest) })
	gauge("vllm:kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1.", func(m modelState) float64 { return m.stats.CacheUsed })
	counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", func(s *wire.ModelStats) uint64 { return s.PrefixQueries })
	counter("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", func(s *wire.ModelStats) uint64 { return s.PrefixHits })
	counter("vllm:external_prefix_cache_queries_total", "Prompt tokens looked up in host memory, as the device does not hold them.", func(s *wire.ModelStats) uint64 { return s.HostQueries })
	counter("vllm:external_prefix_cache_hits_total", "Prompt tokens loaded from host memory.", func(s *wire.ModelStats) uint64 { return s.HostHits })
	counter("prefillonly:passes_total", "Passes run.", func(s *wire.ModelStats) uint64 { return s.Passes })
	c.figures = append(c.figures, figure[modelState]{desc("prefillonly:pass_seconds_total", "Time that executors spent in passes which have ended."), prometheus.CounterValue,
		func(m modelState) float64 { return m.stats.PassTime.Seconds() }})
	counter("prefillonly:kv_evictions_total", "KV blocks evicted.", func(s *wire.ModelStats) uint64 { return s.Evictions })
	counter("prefillonly:model_loads_total", "Times that the model became ready.", func(s *wire.ModelStats) uint64 { return s.Loads })
	counter("prefillonly:model_drops_total", "Times that the model ceased to be ready.", func(s *wire.ModelStats) uint64 { return s.Drops })
	counter("prefillonly:model_loaded_bytes_total", "Bytes of weights loaded for the model.", func(s *wire.ModelStats) uint64 { return s.LoadedBytes })
	c.figures = append(c.figures, figure[modelState]{desc("prefillonly:model_load_seconds_total", "Time spent in loading weights of the model."), prometheus.CounterValue,
		func(m modelState) float64 { return m.stats.LoadTime.Seconds() }})
	counter("prefillonly:late_frames_total", "Frames dropped because their deadline could not be met.", func(s *wire.ModelStats) uint64 { return s.Late })
	counter("prefillonly:superseded_frames_total", "Frames dropped because a newer one of their stream came.", func(s *wire.ModelStats) uint64 { return s.Superseded })
	return c
}

// Describe implements prometheus.Collector.
func (c *modelCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.state, c.bytes, c.executors, c.info, c.passes} {
		out <- d
	}
	for _, f := range c.figures {
		out <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (c *modelCollector) Collect(out chan<- prometheus.Metric) {
	state := c.pool.State()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for name, m := range state.Models {
		gauge(c.state, 1, name, m.State.String())
		gauge(c.bytes, float64(m.Bytes), name)
		gauge(c.executors, float64(m.Executors), name)
	}
	told := map[string]bool{}
	for i := range state.Stats {
		told[state.Stats[i].Model] = true
		c.collectModel(out, state, &state.Stats[i])
	}
	for _, name := range c.first {
		if !told[name] {
			c.collectModel(out, state, &wire.ModelStats{Model: name})
		}
	}
}

// collectModel publishes what there is of a model that has had a job.
func (c *modelCollector) collectModel(out chan<- prometheus.Metric, state *client.State, stats *wire.ModelStats) {
	served, m := state.Models[stats.Model], modelState{stats, c.pool.JobsOf(stats.Model)}
	for _, f := range c.figures {
		out <- prometheus.MustNewConstMetric(f.desc, f.kind, f.of(m), stats.Model)
	}
	if served == nil { // no executor has told of it yet
		out <- prometheus.MustNewConstMetric(c.executors, prometheus.GaugeValue, 0, stats.Model)
	}
	blocks, size := 0, 0
	if served != nil && served.Tokens != nil {
		blocks, size = served.Tokens.NumBlocks, served.Tokens.BlockTokens
	}
	out <- prometheus.MustNewConstMetric(c.info, prometheus.GaugeValue, 1, stats.Model, strconv.Itoa(size), strconv.Itoa(blocks))
	total, buckets := uint64(0), map[float64]uint64{}
	for i, count := range stats.PassUnits {
		total += count
		if i < len(wire.PassUnitBounds) {
			buckets[wire.PassUnitBounds[i]] = total
		}
	}
	out <- prometheus.MustNewConstHistogram(c.passes, total, float64(stats.ComputedUnits), buckets, stats.Model)
}
