package gauges

import (
	"cmp"
	"slices"
	"time"
)

// View is what two samples tell of the time between them, and how the server is at its end.
type View struct {
	At     time.Time
	Span   time.Duration // that rates and distributions are of
	Whole  bool          // the span is all of the server's time: there was no sample before
	Pool   Pool
	Models []Model
	GPUs   []GPU
}

// Pool is what no model is to be held to. Rates are in a second.
type Pool struct {
	Answered, Failed, Refused  float64 // requests: answered, failed after they were taken in, answered with an error's status
	OpenJobs, Connections      float64
	Preempted, Retried, Nested float64
	ExecutorsLost              float64 // since the scheduler started
	WeightBytes, WeightLimit   float64
}

// Model is one model that is served. Rates are in a second.
type Model struct {
	Name, State                        string
	Executors                          float64
	Running, Waiting                   float64 // jobs
	CacheUsed                          float64 // share of the prefix cache's blocks
	Queried, Hit, HostQueried, HostHit float64 // tokens looked up and found in the prefix cache, and in host memory
	WeightBytes                        float64
	Answered                           float64
	Prompt, Computed, Generated        float64 // tokens
	Frames, LateFrames                 float64
	Passes                             float64
	Latency, FirstToken, Queue, Pass   Distribution // seconds, but for Pass: tokens of a pass
}

// GPU is one, with what it last told of itself; -1 is what it did not.
type GPU struct {
	Executor, Name, UUID string
	Use, Temperature     float64 // percent, degrees
	Power                float64 // watts
	Used, Free           float64 // MiB
}

// Between makes a View of two samples of one server. Without the first, it is of all that was since the server started.
func Between(before, now *Sample) *View {
	s := &span{before: before, now: now}
	from := now.oldestStart()
	if before != nil {
		from = before.At
	}
	v := &View{At: now.At, Span: now.At.Sub(from), Whole: before == nil}
	s.seconds = v.Span.Seconds()
	v.Pool = s.readPool()
	for _, name := range now.modelNames() {
		v.Models = append(v.Models, s.readModel(name))
	}
	for _, id := range now.labelValues("DCGM_FI_DEV_GPU_UTIL", "UUID") {
		v.GPUs = append(v.GPUs, now.readGPU(id))
	}
	slices.SortFunc(v.GPUs, func(a, b GPU) int { return cmp.Or(cmp.Compare(a.Executor, b.Executor), cmp.Compare(a.UUID, b.UUID)) })
	return v
}

func (s *span) readPool() Pool {
	all := func(name string) float64 { return s.counterRate(name, "", "") }
	gauge := func(name string) float64 { return s.now.sumGauge(name, "", "") }
	done := all("vllm:request_success_total")
	failed := s.counterRate("vllm:request_success_total", "finished_reason", "error")
	return Pool{
		Answered: done - failed - s.counterRate("vllm:request_success_total", "finished_reason", "abort"),
		Failed:   failed, Refused: all("prefillonly:refused_requests_total"),
		OpenJobs: gauge("prefillonly:open_jobs"), Connections: gauge("prefillonly:http_connections"),
		Preempted: all("vllm:num_preemptions_total"), Retried: all("prefillonly:retries_total"), Nested: all("prefillonly:nested_passes_total"),
		ExecutorsLost: gauge("prefillonly:executors_lost_total"),
		WeightBytes:   gauge("prefillonly:weight_bytes_used"), WeightLimit: gauge("prefillonly:weight_bytes_limit"),
	}
}

// modelNames are the names of all that are served, in order.
func (s *Sample) modelNames() []string {
	names := append(s.labelValues("prefillonly:model_state", "model_name"), s.labelValues("prefillonly:executors", "model_name")...)
	slices.Sort(names)
	return slices.Compact(names)
}

func (s *span) readModel(name string) Model {
	const by = "model_name"
	gauge := func(metric string) float64 { return s.now.sumGauge(metric, by, name) }
	rate := func(metric string) float64 { return s.counterRate(metric, by, name) }
	total := func(metric string) float64 { return s.counterGrowth(metric, by, name) }
	spread := func(metric string) Distribution { return s.sumHistograms(metric, by, name) }
	m := Model{
		Name: name, State: s.now.modelState(name), Executors: gauge("prefillonly:executors"),
		Running: gauge("vllm:num_requests_running"), Waiting: gauge("vllm:num_requests_waiting"), CacheUsed: gauge("vllm:kv_cache_usage_perc"),
		Queried: total("vllm:prefix_cache_queries_total"), Hit: total("vllm:prefix_cache_hits_total"),
		HostQueried: total("vllm:external_prefix_cache_queries_total"), HostHit: total("vllm:external_prefix_cache_hits_total"),
		WeightBytes: gauge("prefillonly:model_weight_bytes"),
		Prompt:      rate("vllm:prompt_tokens_total"), Generated: rate("vllm:generation_tokens_total"),
		Frames: rate("prefillonly:frames_total"), LateFrames: rate("prefillonly:late_frames_total"), Passes: rate("prefillonly:passes_total"),
		Latency: spread("vllm:e2e_request_latency_seconds"), FirstToken: spread("vllm:time_to_first_token_seconds"),
		Queue: spread("vllm:request_queue_time_seconds"), Pass: spread("vllm:iteration_tokens_total"),
	}
	if s.seconds > 0 {
		m.Answered, m.Computed = m.Latency.Count/s.seconds, m.Pass.Sum/s.seconds
	}
	return m
}

// modelState is the one that the model is in.
func (s *Sample) modelState(model string) string {
	for _, p := range s.series["prefillonly:model_state"] {
		if p.labels["model_name"] == model && p.value == 1 {
			return p.labels["state"]
		}
	}
	return ""
}

func (s *Sample) readGPU(id string) GPU {
	g := GPU{UUID: id}
	figure := func(name string) float64 {
		for _, p := range s.series[name] {
			if p.labels["UUID"] == id {
				g.Name, g.Executor = p.labels["modelName"], p.labels["executor"]
				return p.value
			}
		}
		return -1
	}
	g.Use, g.Temperature, g.Power = figure("DCGM_FI_DEV_GPU_UTIL"), figure("DCGM_FI_DEV_GPU_TEMP"), figure("DCGM_FI_DEV_POWER_USAGE")
	g.Used, g.Free = figure("DCGM_FI_DEV_FB_USED"), figure("DCGM_FI_DEV_FB_FREE")
	return g
}
