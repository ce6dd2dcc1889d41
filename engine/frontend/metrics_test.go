package frontend

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// TestMetricNames holds the families and labels that routers and dashboards look for.
func TestMetricNames(t *testing.T) {
	f, _ := newFrontend(t, Config{}, func(s *wire.Submit) []*wire.Result {
		r := say("Yes", engine.FinishStop)(s)
		r[len(r)-1].Timing = engine.Timing{Queued: 30 * time.Millisecond, Running: 3 * time.Millisecond}
		return r
	})
	w := welcome(1)
	w.Waiting, w.Running, w.CacheUsed = 3, 2, 0.25
	w.Stats = wire.Stats{PrefixQueries: 100, PrefixHits: 40, Preemptions: 5, HostQueries: 60, HostHits: 20}
	f.deliver(w)
	do(f, http.MethodPost, "/v1/completions", `{"prompt":["ab","c"],"max_tokens":16}`)
	do(f, http.MethodPost, "/v1/completions", `{"prompt":"ab","max_tokens":1}`)
	do(f, http.MethodPost, "/v1/completions", `{"prompt":"ab","model":"none"}`)
	text := do(f, http.MethodGet, "/metrics", "").Body.String()
	const labels = `engine="0",model_name="demo"`
	for _, line := range []string{
		`vllm:num_requests_running{` + labels + `} 2`,
		`vllm:num_requests_waiting{` + labels + `} 3`,
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
		`vllm:request_prefill_time_seconds_count{` + labels + `} 1`,
		`vllm:request_decode_time_seconds_count{` + labels + `} 1`,
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
	done := begin(f, newPost(`{"prompt":["a","b","c"]}`))
	for range 3 {
		<-s.heard
	}
	if text := do(f, http.MethodGet, "/metrics", "").Body.String(); !strings.Contains(text, `vllm:num_requests_waiting{engine="0",model_name="demo"} 3`) {
		t.Error("three jobs are not waiting")
	}
	submits, _ := s.seen()
	f.deliver(&wire.Result{Job: submits[0].Job, Err: engine.Errorf(engine.CodeInternal, "end")})
	<-done
}
