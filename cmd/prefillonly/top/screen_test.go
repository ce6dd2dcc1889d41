package top

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/internal/gauges"
)

var update = flag.Bool("update", false, "write the golden screens")

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// metrics is what a server of two models and a GPU tells after so many requests of the first.
func metrics(t *testing.T, at time.Time, done int) *gauges.Sample {
	t.Helper()
	var b strings.Builder
	tell := func(kind, name, labels string, value any) {
		fmt.Fprintf(&b, "# TYPE %s %s\n%s{%s} %v\n", name, kind, name, labels, value)
	}
	tell("gauge", "process_start_time_seconds", "", noon.Add(-26*time.Hour).Unix())
	tell("gauge", "prefillonly:open_jobs", "", 37)
	tell("gauge", "prefillonly:http_connections", "", 64)
	tell("gauge", "prefillonly:weight_bytes_used", "", 9<<30)
	tell("gauge", "prefillonly:weight_bytes_limit", "", 70<<30)
	tell("counter", "prefillonly:executors_lost_total", "", 1)
	tell("counter", "prefillonly:refused_requests_total", `status="429"`, done/10)
	b.WriteString("# TYPE prefillonly:model_state gauge\n")
	b.WriteString("prefillonly:model_state{model_name=\"Qwen2.5-0.5B\",state=\"ready\"} 1\n")
	b.WriteString("prefillonly:model_state{model_name=\"a-judge-with-a-name-of-many-words\x1b[31m\",state=\"failed\"} 1\n")
	const m = `model_name="Qwen2.5-0.5B"`
	tell("gauge", "prefillonly:executors", m, 1)
	tell("gauge", "prefillonly:model_weight_bytes", m, 988<<20)
	tell("gauge", "vllm:num_requests_running", m, 5)
	tell("gauge", "vllm:num_requests_waiting", m, 32)
	tell("gauge", "vllm:kv_cache_usage_perc", m, 0.815)
	tell("counter", "vllm:prefix_cache_queries_total", m, 500*done)
	tell("counter", "vllm:prefix_cache_hits_total", m, 370*done)
	tell("counter", "vllm:prompt_tokens_total", m, 500*done)
	tell("counter", "vllm:generation_tokens_total", m, done)
	tell("counter", "prefillonly:passes_total", m, done/2)
	tell("counter", "vllm:request_success_total", m+`,finished_reason="stop"`, done)
	for _, h := range []string{"vllm:e2e_request_latency_seconds", "vllm:request_queue_time_seconds", "vllm:time_to_first_token_seconds"} {
		fmt.Fprintf(&b, "# TYPE %s histogram\n", h)
		for _, le := range []struct {
			bound string
			count int
		}{{"0.01", done / 4}, {"0.1", done * 9 / 10}, {"2", done}, {"+Inf", done}} {
			fmt.Fprintf(&b, "%s_bucket{%s,le=%q} %d\n", h, m, le.bound, le.count)
		}
		fmt.Fprintf(&b, "%s_sum{%s} %d\n%s_count{%s} %d\n", h, m, done/20, h, m, done)
	}
	fmt.Fprintf(&b, "# TYPE vllm:iteration_tokens_total histogram\nvllm:iteration_tokens_total_bucket{%s,le=\"+Inf\"} %d\nvllm:iteration_tokens_total_sum{%s} %d\nvllm:iteration_tokens_total_count{%s} %d\n", m, done/2, m, 130*done, m, done/2)
	const gpu = `UUID="GPU-8932f937",executor="executor-0",modelName="NVIDIA H100 80GB HBM3"`
	tell("gauge", "DCGM_FI_DEV_GPU_UTIL", gpu, 93)
	tell("gauge", "DCGM_FI_DEV_GPU_TEMP", gpu, 61)
	tell("gauge", "DCGM_FI_DEV_FB_USED", gpu, 71000)
	tell("gauge", "DCGM_FI_DEV_FB_FREE", gpu, 10559)
	s, err := gauges.Read(strings.NewReader(b.String()), at)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func drawn(p *picture, columns, rows int, colour bool) string {
	var b strings.Builder
	for _, l := range p.drawLines(columns, rows) {
		b.WriteString(l.formatSpans(colour) + "\n")
	}
	return b.String()
}

// TestScreens: what is drawn for sizes of screens, kept in testdata.
func TestScreens(t *testing.T) {
	first := metrics(t, noon, 40_000)
	second := metrics(t, noon.Add(2*time.Second), 41_000)
	fine := picture{server: "http://localhost:8000"}
	fine.takeReading(nil, &reading{sample: first, healthy: true})
	start := fine
	fine.takeReading(first, &reading{sample: second, healthy: true})
	sick := picture{server: "http://localhost:8000"}
	sick.takeReading(first, &reading{sample: second, reason: "the scheduler is silent for 12s"})
	gone := fine
	gone.takeReading(second, &reading{err: errors.New("nothing listens at http://localhost:8000: start a server with `prefillonly serve`, or give another address")})
	for name, c := range map[string]struct {
		p             *picture
		columns, rows int
		colour        bool
	}{
		"80x24": {&fine, 80, 24, false}, "80x24_colour": {&fine, 80, 24, true}, "200x50": {&fine, 200, 50, false}, "40x8": {&fine, 40, 8, false},
		"start": {&start, 80, 24, false}, "sick": {&sick, 80, 24, true}, "gone": {&gone, 80, 24, false}, "1x1": {&fine, 1, 1, false},
	} {
		got := drawn(c.p, c.columns, c.rows, c.colour)
		file := filepath.Join("testdata", name+".txt")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || got != string(want) {
			t.Errorf("%s: %v; drawn is\n%s", name, err, got)
		}
		for n, l := range c.p.drawLines(c.columns, c.rows) {
			if w := textWidth(l.formatSpans(false)); w > c.columns || n >= c.rows {
				t.Errorf("%s: line %d has %d columns", name, n+1, w)
			}
		}
	}
}

// TestForeignText: what a server tells cannot steer the terminal.
func TestForeignText(t *testing.T) {
	p := picture{server: "http://h\x1b]0;x\x07", trouble: "\x1b[2J\r\n\x9b31m\u202e"}
	if text := drawn(&p, 80, 24, false); strings.ContainsAny(text, "\x1b\x07\r\u009b\u202e") {
		t.Errorf("%q", text)
	}
}

func TestColumns(t *testing.T) {
	for text, want := range map[string]string{"abc": "abc  ", "abcdef": "abcd~", "模型名": "模型~", "é": "é    ", "": "     "} {
		if got := padText(text, -5); got != want || textWidth(got) != 5 {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	for value, want := range map[float64]string{0: "0", 3.14159: "3.14", 12.345: "12.3", 1234.5: "1234", 99949: "99949", 123456: "123k", 2.5e6: "2.5M", 1e12: "1e+12"} {
		if got := formatShort(value); got != want {
			t.Errorf("%v becomes %s, want %s", value, got, want)
		}
	}
	for value, want := range map[float64]string{0: "0.0ms", .00951: "9.5ms", .25: "250ms", 1.25: "1.2s", 500: "500s"} {
		if got := formatSeconds(value); got != want {
			t.Errorf("%v s becomes %s, want %s", value, got, want)
		}
	}
}
