package metrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/streams"
)

// TestPublish holds the page to what was counted, and to promtool's linter but for the prefix, which all figures here have.
func TestPublish(t *testing.T) {
	var f Figures
	f.Sent(method.A, 100)
	f.Sent(method.B, 20)
	f.Sent(method.A, 1)
	f.Spend(Spent{1 * time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second, 5 * time.Second, 6 * time.Second})
	f.CountGradient(Gradients{Asked: 1, Feedback: 90, Computing: time.Second})
	f.CountGradient(Gradients{Asked: 1, Late: 1, Computing: 2 * time.Second})
	f.CountGradient(Gradients{Asked: 1, Failed: 1})
	f.Count([]streams.Result{
		{Final: true, Latency: 10 * time.Millisecond}, {Final: true, Latency: 11 * time.Millisecond}, {Latency: time.Second}, {Final: true, Latency: time.Minute},
	}, streams.Counts{Frames: 3, Late: 2, Dropped: 1, Things: 4, Score: 2.5, Regions: 7})
	list := []Stream{{Name: "door", Model: "eye", State: "running", Load: 0.25, Counted: f.Now()}, {Name: "new", Model: "eye", State: "waiting"}}
	merges := []Merge{{Model: "eye", State: MergeWatched, Shared: 72, Samples: 12, Score: .5, Target: .95, Reverts: 1}}
	read := func() string {
		w := httptest.NewRecorder()
		Handler(func(*http.Request) []Stream { return list }, func() []Merge { return merges }).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
	page := read()
	for _, want := range []string{
		`state{model_name="eye",state="running",stream_name="door"} 1`, `state{model_name="eye",state="waiting",stream_name="new"} 1`,
		`load{model_name="eye",stream_name="door"} 0.25`, `frames_total{model_name="eye",stream_name="door"} 3`,
		`late_frames_total{model_name="eye",stream_name="door"} 2`, `dropped_frames_total{model_name="eye",stream_name="door"} 1`,
		`boxes_total{model_name="eye",stream_name="door"} 4`, `box_scores_total{model_name="eye",stream_name="door"} 2.5`,
		`regions_total{model_name="eye",stream_name="door"} 7`,
		`bytes_total{model_name="eye",stream_name="door",track="a"} 101`, `bytes_total{model_name="eye",stream_name="door",track="b"} 20`,
		`latency_seconds_bucket{model_name="eye",stream_name="door",le="0.01"} 1`, `latency_seconds_bucket{model_name="eye",stream_name="door",le="0.02"} 2`,
		`latency_seconds_bucket{model_name="eye",stream_name="door",le="10"} 2`, `latency_seconds_bucket{model_name="eye",stream_name="door",le="+Inf"} 3`,
		`processor_seconds_total{model_name="eye",stream_name="door",work="decode"} 1`, `processor_seconds_total{model_name="eye",stream_name="door",work="scale"} 2`,
		`processor_seconds_total{model_name="eye",stream_name="door",work="read"} 3`, `wait_seconds_total{model_name="eye",reason="turn",stream_name="door"} 4`,
		`wait_seconds_total{model_name="eye",reason="queue",stream_name="door"} 5`, `device_seconds_total{model_name="eye",stream_name="door"} 6`,
		`gradients_total{model_name="eye",stream_name="door"} 3`, `late_gradients_total{model_name="eye",stream_name="door"} 1`,
		`failed_gradients_total{model_name="eye",stream_name="door"} 1`, `feedback_bytes_total{model_name="eye",stream_name="door"} 90`,
		`gradient_device_seconds_total{model_name="eye",stream_name="door"} 3`,
		`latency_seconds_sum{model_name="eye",stream_name="door"} 60.021`, `latency_seconds_count{model_name="eye",stream_name="new"} 0`,
	} {
		if !strings.Contains(page, "\nprefillonly:stream_"+want+"\n") {
			t.Errorf("the page lacks %s", want)
		}
	}
	for _, want := range []string{
		`state{model_name="eye",state="watched"} 1`, `shared_bytes{model_name="eye"} 72`, `agreement{model_name="eye"} 0.5`, `target{model_name="eye"} 0.95`,
		`samples_total{model_name="eye"} 12`, `reverts_total{model_name="eye"} 1`,
	} {
		if !strings.Contains(page, "\nprefillonly:merge_"+want+"\n") {
			t.Errorf("the page lacks %s", want)
		}
	}
	problems, err := promlint.New(strings.NewReader(page)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if !strings.Contains(p.Text, "should not contain ':'") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	if list = nil; strings.Contains(read(), "door") {
		t.Error("a stream that is gone has series")
	}
}
