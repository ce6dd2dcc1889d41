package frontend

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// TestRequestMetrics: answers of one choice tell the times of their requests, where that is wanted.
func TestRequestMetrics(t *testing.T) {
	timed := func(s *wire.Submit) []*wire.Result {
		r := replies(s, []engine.TokenID{'Y'})
		r[len(r)-1].Timing = engine.Timing{Queued: 1500 * time.Microsecond, Running: 4 * time.Millisecond}
		return r
	}
	on, _ := newFrontend(t, Config{Metrics: true}, timed)
	off, _ := newFrontend(t, Config{}, timed)
	const metrics = `"metrics":{"time_to_first_token_ms":`
	for path, body := range map[string]string{
		"/v1/completions": `{"prompt":"a","max_tokens":1}`, "/v1/chat/completions": `{"messages":[{"role":"user","content":"a"}],"max_tokens":1}`,
	} {
		var answer struct {
			Metrics *struct {
				First   *float64 `json:"time_to_first_token_ms"`
				Queue   float64  `json:"queue_time_ms"`
				Between *float64 `json:"mean_itl_ms"`
				Rate    float64  `json:"tokens_per_second"`
			}
		}
		post(t, on, path, body, &answer)
		if m := answer.Metrics; m == nil || m.First == nil || *m.First < 0 || m.Queue != 1.5 || m.Between == nil || *m.Between != 0 || m.Rate != 250 {
			t.Errorf("%s: %+v", path, m)
		}
		stream := strings.TrimSuffix(body, "}") + `,"stream":true,"stream_options":{"include_usage":true}}`
		text := do(on, http.MethodPost, path, stream).Body.String()
		if events := strings.Split(text, "\n\n"); strings.Count(text, metrics) != 1 || !strings.Contains(events[len(events)-3], metrics) {
			t.Errorf("%s streams %s", path, text)
		}
		for _, text := range []string{do(off, http.MethodPost, path, body).Body.String(), do(off, http.MethodPost, path, stream).Body.String()} {
			if strings.Contains(text, `"metrics"`) {
				t.Errorf("%s unasked: %s", path, text)
			}
		}
	}
	if text := do(on, http.MethodPost, "/v1/completions", `{"prompt":["a","b"],"max_tokens":1}`).Body.String(); strings.Contains(text, `"metrics"`) {
		t.Errorf("of two prompts: %s", text)
	}
}
