package merge

import (
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/merging/generations"
)

// TestReportShowsFrames: pictures are in the page itself, beside what they are, and names of models are text.
func TestReportShowsFrames(t *testing.T) {
	var out strings.Builder
	err := reportPage.Execute(&out, page{Names: "<b>", Pictures: []pictures{{Model: "door", Frames: []framePair{{12, .25, "data:image/jpeg;base64,AA==", "data:image/jpeg;base64,AQ=="}}}}})
	for _, want := range []string{`src="data:image/jpeg;base64,AA=="`, `src="data:image/jpeg;base64,AQ=="`, "held-out frame 12", "score 0.250", "&lt;b&gt;"} {
		if err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v: no %s in\n%s", err, want, out.String())
		}
	}
}

// TestChartOfAttempts: the best score of each attempt stands over what it saves, whichever came first.
func TestChartOfAttempts(t *testing.T) {
	score := func(v float64) generations.Event {
		return generations.Event{Event: generations.Scored, Model: "door", Score: &generations.Score{Value: v, Low: v - .1}}
	}
	tied := func(saved int64) generations.Event {
		return generations.Event{Event: generations.Tied, Saved: saved}
	}
	c := chartOf([]generations.Event{score(1), tied(50), score(.6), score(.8), score(.7), tied(25), score(.9)}, 100, .95)
	for _, s := range c.Series {
		want := map[string][]float64{"door": {1, .9, .8}, "door, at least": {.9, .8, .7}, "target": {.95, .95}}[s.Name]
		if len(s.X) != len(want) {
			t.Fatalf("%s: %v, %v", s.Name, s.X, s.Y)
		}
		for i := range want {
			if at := []float64{0, 25, 50}; max(s.Y[i]-want[i], want[i]-s.Y[i]) > 1e-9 || s.Name != "target" && s.X[i] != at[i] {
				t.Errorf("%s: %v, %v, want %v", s.Name, s.X, s.Y, want)
			}
		}
	}
	if _, err := chartOf(nil, 100, .95).SVG(); err == nil {
		t.Error("a chart of nothing is drawn")
	}
}
