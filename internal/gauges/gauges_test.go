package gauges

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func sample(t *testing.T, at time.Time, text string) *Sample {
	t.Helper()
	s, err := Read(strings.NewReader(text), at)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// requests is what two frontends tell of a model.
func requests(first, second, le1, le2, count int) string {
	return fmt.Sprintf(`# TYPE vllm:request_success_total counter
vllm:request_success_total{frontend="a",finished_reason="stop",model_name="m"} %d
vllm:request_success_total{frontend="b",finished_reason="stop",model_name="m"} %d
# TYPE prefillonly:model_state gauge
prefillonly:model_state{model_name="m",state="ready"} 1
# TYPE vllm:e2e_request_latency_seconds histogram
vllm:e2e_request_latency_seconds_bucket{model_name="m",le="1"} %d
vllm:e2e_request_latency_seconds_bucket{model_name="m",le="2"} %d
vllm:e2e_request_latency_seconds_bucket{model_name="m",le="+Inf"} %d
vllm:e2e_request_latency_seconds_sum{model_name="m"} 9
vllm:e2e_request_latency_seconds_count{model_name="m"} %d
# TYPE process_start_time_seconds gauge
process_start_time_seconds{frontend="a"} %d
`, first, second, le1, le2, count, count, noon.Add(-time.Minute).Unix())
}

// TestRatesAreOfTheTimeBetween, and one frontend that was started again counts from zero.
func TestRatesAreOfTheTimeBetween(t *testing.T) {
	before, now := sample(t, noon, requests(100, 50, 10, 10, 10)), sample(t, noon.Add(10*time.Second), requests(130, 20, 10, 110, 110))
	v := Between(before, now)
	if v.Pool.Answered != 5 || v.Whole || v.Span != 10*time.Second {
		t.Errorf("%v requests/s in %v; want 30 of the first and 20 of the second in 10 s", v.Pool.Answered, v.Span)
	}
	m := v.Models[0]
	if m.Name != "m" || m.State != "ready" || m.Answered != 10 {
		t.Errorf("%+v", m)
	}
	if p50, p99 := m.Latency.Quantile(.5), m.Latency.Quantile(.99); p50 != 1.5 || math.Abs(p99-1.99) > 1e-9 {
		t.Errorf("P50 %v, P99 %v; of 100 requests between 1 and 2 s they are 1.5 and 1.99", p50, p99)
	}
}

func TestTheFirstSampleIsOfAllTime(t *testing.T) {
	v := Between(nil, sample(t, noon, requests(100, 20, 10, 10, 10)))
	if !v.Whole || v.Span != time.Minute || v.Pool.Answered != 2 {
		t.Errorf("%v requests/s in %v; want 120 in the minute since the start", v.Pool.Answered, v.Span)
	}
	if none := Between(nil, sample(t, noon, "")); len(none.Models) != 0 || none.Pool.Answered != 0 || none.Span != 0 {
		t.Errorf("of nothing: %+v", none)
	}
}

func TestQuantiles(t *testing.T) {
	d := Distribution{Count: 10, buckets: []bucket{{1, 0}, {2, 5}, {4, 9}, {math.Inf(1), 10}}}
	for q, want := range map[float64]float64{.25: 1.5, .5: 2, .7: 3, .9: 4, .99: 4} {
		if got := d.Quantile(q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if empty := (&Distribution{}).Quantile(.5); !math.IsNaN(empty) {
		t.Errorf("of nothing it is %v", empty)
	}
}

// TestBucketsThatChange are of another version of the server: nothing is said of both together.
func TestBucketsThatChange(t *testing.T) {
	before := sample(t, noon, "# TYPE vllm:e2e_request_latency_seconds histogram\nvllm:e2e_request_latency_seconds_bucket{model_name=\"m\",le=\"+Inf\"} 5\nvllm:e2e_request_latency_seconds_count{model_name=\"m\"} 5\n")
	v := Between(before, sample(t, noon.Add(time.Second), requests(1, 1, 3, 3, 6)))
	if m := v.Models[0]; m.Latency.Count != 6 {
		t.Errorf("%v requests; the histogram began anew with 6", m.Latency.Count)
	}
}

func TestWhatIsNoMetrics(t *testing.T) {
	for _, text := range []string{"<html>", "a{b=\"c\" 1\n", strings.Repeat("{", 1000)} {
		if _, err := Read(strings.NewReader(text), noon); err == nil {
			t.Errorf("%.20q is read", text)
		}
	}
}

func TestGPUs(t *testing.T) {
	v := Between(nil, sample(t, noon, `# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{UUID="GPU-2",executor="executor-1",modelName="NVIDIA H100"} 40
DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",executor="executor-0",modelName="NVIDIA H100"} 90
# TYPE DCGM_FI_DEV_FB_USED gauge
DCGM_FI_DEV_FB_USED{UUID="GPU-1",executor="executor-0",modelName="NVIDIA H100"} 1024
`))
	want := []GPU{
		{"executor-0", "NVIDIA H100", "GPU-1", 90, -1, -1, 1024, -1},
		{"executor-1", "NVIDIA H100", "GPU-2", 40, -1, -1, -1, -1},
	}
	for i := range want {
		if len(v.GPUs) != len(want) || v.GPUs[i] != want[i] {
			t.Fatalf("%+v, want %+v", v.GPUs, want)
		}
	}
}
