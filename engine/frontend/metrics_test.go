package frontend

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// busyMetrics is the page of a server that has answered and refused requests.
func busyMetrics(t *testing.T) string {
	t.Helper()
	f, _ := newFrontendPool(t, Config{}, client.Config{MaxJobs: 2}, func(s *wire.Submit) []*wire.Result {
		r := say("Yes", engine.FinishStop)(s)
		r[len(r)-1].Timing = engine.Timing{Queued: 30 * time.Millisecond, Running: 3 * time.Millisecond}
		return r
	})
	w := welcome(1)
	w.Pool = wire.Stats{Preemptions: 5, RefusedJobs: 1, RefusedTokens: 2, RefusedTime: 3}
	w.Stats = []wire.ModelStats{{
		Model: "demo", Waiting: 3, Running: 2, Lowest: 4, PassTime: 1500 * time.Millisecond, CacheUsed: 0.25,
		PrefixQueries: 100, PrefixHits: 40, HostQueries: 60, HostHits: 20, ComputedUnits: 20_000,
		PassUnits: make([]uint64, len(wire.PassUnitBounds)+1),
	}}
	passes := w.Stats[0].PassUnits
	passes[0], passes[3], passes[len(passes)-1] = 2, 1, 1
	w.States = []wire.ExecutorState{{Name: "cuda-0", UUID: "GPU-1", GPU: "H200", Readings: []wire.Reading{
		{Name: "DCGM_FI_DEV_GPU_TEMP", Value: 40}, {Name: "DCGM_FI_DEV_POWER_USAGE", Value: 300}, {Name: "DCGM_FI_DEV_FB_USED", Value: 100}, {Name: "DCGM_FI_DEV_FB_FREE", Value: 200},
	}}}
	f.pool.Deliver(w)
	do(f, http.MethodPost, "/v1/completions", `{"prompt":["ab","c"],"max_tokens":16}`)
	do(f, http.MethodPost, "/v1/completions", `{"prompt":"ab","max_tokens":1}`)
	do(f, http.MethodPost, "/v1/completions", `{"prompt":"ab","model":"none"}`)
	do(f, http.MethodPost, "/v1/completions", `{"prompt":["a","b","c"]}`)
	return do(f, http.MethodGet, "/metrics", "").Body.String()
}

// TestMetricNames holds the families and labels that routers and dashboards look for.
func TestMetricNames(t *testing.T) {
	text := busyMetrics(t)
	const labels = `engine="0",model_name="demo"`
	for _, line := range []string{
		`vllm:num_requests_running{` + labels + `} 2`,
		`vllm:num_requests_waiting{` + labels + `} 3`,
		`prefillonly:num_requests_lowest{` + labels + `} 4`,
		`prefillonly:pass_seconds_total{` + labels + `} 1.5`,
		`vllm:kv_cache_usage_perc{` + labels + `} 0.25`,
		`vllm:cache_config_info{block_size="16",` + labels + `,num_gpu_blocks="100"} 1`,
		`vllm:prefix_cache_queries_total{` + labels + `} 100`,
		`vllm:prefix_cache_hits_total{` + labels + `} 40`,
		`vllm:external_prefix_cache_queries_total{` + labels + `} 60`,
		`vllm:external_prefix_cache_hits_total{` + labels + `} 20`,
		`vllm:num_preemptions_total{` + labels + `} 5`,
		`vllm:prompt_tokens_total{` + labels + `} 8`,
		`vllm:generation_tokens_total{` + labels + `} 9`,
		`vllm:prompt_tokens_cached_total{` + labels + `} 3`,
		`vllm:request_success_total{` + strings.Replace(labels, `,`, `,finished_reason="stop",`, 1) + `} 1`,
		`vllm:request_success_total{` + strings.Replace(labels, `,`, `,finished_reason="length",`, 1) + `} 1`,
		`vllm:e2e_request_latency_seconds_count{` + labels + `} 2`,
		`vllm:time_to_first_token_seconds_count{` + labels + `} 2`,
		`vllm:request_queue_time_seconds_bucket{` + labels + `,le="0.04"} 2`,
		`vllm:request_queue_time_seconds_bucket{` + labels + `,le="0.02"} 0`,
		`vllm:request_prefill_time_seconds_count{` + labels + `} 2`,
		`vllm:request_decode_time_seconds_count{` + labels + `} 2`,
		`vllm:request_inference_time_seconds_count{` + labels + `} 2`,
		`vllm:inter_token_latency_seconds_count{` + labels + `} 6`, // two answers of four tokens, one of one
		`vllm:request_prefill_kv_computed_tokens_sum{` + labels + `} 5`,
		`vllm:iteration_tokens_total_bucket{` + labels + `,le="1"} 2`,
		`vllm:iteration_tokens_total_bucket{` + labels + `,le="16"} 2`,
		`vllm:iteration_tokens_total_bucket{` + labels + `,le="32"} 3`,
		`vllm:iteration_tokens_total_bucket{` + labels + `,le="16384"} 3`,
		`vllm:iteration_tokens_total_bucket{` + labels + `,le="+Inf"} 4`,
		`vllm:iteration_tokens_total_sum{` + labels + `} 20000`,
		`vllm:admission_rejections_total{` + labels + `,reason="max_num_queued_reqs"} 1`,
		`vllm:admission_rejections_total{` + labels + `,reason="max_num_queued_tokens"} 2`,
		`vllm:admission_rejections_total{` + labels + `,reason="max_queue_time"} 3`,
		`vllm:admission_rejections_total{` + labels + `,reason="max_open_jobs"} 3`,
		`vllm:request_prompt_tokens_sum{` + labels + `} 8`,
		`vllm:request_generation_tokens_sum{` + labels + `} 9`,
		`prefillonly:refused_requests_total{` + labels + `,status="404"} 1`,
		`prefillonly:open_jobs{` + labels + `} 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	for _, family := range []string{"go_goroutines", "process_open_fds"} {
		if !strings.Contains(text, "# TYPE "+family) {
			t.Errorf("no family %s", family)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// TestWaitingIsFresh holds that jobs show as load before the scheduler reports them.
func TestWaitingIsFresh(t *testing.T) {
	f, s := newFrontend(t, Config{}, nil)
	done := start(f, newPost(`{"prompt":["a","b","c"]}`))
	for range 3 {
		<-s.Heard
	}
	if text := do(f, http.MethodGet, "/metrics", "").Body.String(); !strings.Contains(text, `vllm:num_requests_waiting{engine="0",model_name="demo"} 3`) {
		t.Error("three jobs are not waiting")
	}
	submits, _ := s.Seen()
	f.pool.Deliver(&wire.Result{Job: submits[0].ID, Err: engine.Errorf(engine.CodeInternal, "end")})
	<-done
}

// TestMetricsLint reads the page with promtool's parser and linter. What is left of its complaints are
// names that vLLM and the DCGM exporter have given.
func TestMetricsLint(t *testing.T) {
	f, _ := newFrontend(t, Config{}, say("Yes", engine.FinishStop))
	w := welcome(1)
	w.Stats = []wire.ModelStats{{Model: "demo", PassUnits: []uint64{1, 2}}}
	w.States = []wire.ExecutorState{{Name: "cuda-0", UUID: "GPU-1", GPU: "H200", Readings: []wire.Reading{{Name: "DCGM_FI_DEV_GPU_TEMP", Value: 40}}}}
	f.pool.Deliver(w)
	do(f, http.MethodPost, "/v1/completions", `{"prompt":"ab"}`)
	do(f, http.MethodPost, "/v1/completions", `{"prompt":[]}`)
	problems, err := promlint.New(do(f, http.MethodGet, "/metrics", "").Body).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		switch {
		case strings.Contains(p.Text, "should not contain ':'"), strings.HasPrefix(p.Metric, "DCGM_"):
		case p.Metric == "vllm:iteration_tokens_total" && strings.Contains(p.Text, `"_total" suffix`):
		default:
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	if len(problems) < 20 {
		t.Errorf("the linter has read little: %v", problems)
	}
}
