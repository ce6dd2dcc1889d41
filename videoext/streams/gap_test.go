package streams

import (
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext/method"
)

// TestGapIsBoundedInFrames: segments that are missing have as many frames in all as results are kept; of more, the one behind them is refused.
func TestGapIsBoundedInFrames(t *testing.T) {
	for _, c := range []struct {
		missing, of int
		refused     bool
	}{{1, 3600, false}, {2, 3600, true}, {4096, 1, false}, {4097, 1, true}, {4096, 3600, true}, {1 << 30, 1, true}, {1<<31 - 2, 3600, true}} {
		for name, event := range map[string]func(method.Segment) Event{
			"came": func(n method.Segment) Event {
				return Came{Segment: n, Frames: []int{0}, Times: []time.Duration{time.Hour}, Of: c.of}
			},
			"missed": func(n method.Segment) Event { return Missed{Segment: n, Of: c.of} },
		} {
			core := New(Config{New: func() method.Server { return &method.OneStream{How: method.Plain{}, Blank: true} }, Rate: 10})
			if _, err := core.Step(0, Missed{Of: 2}); err != nil {
				t.Fatal(err)
			}
			actions, err := core.Step(0, event(method.Segment(1+c.missing)))
			if got := err != nil && strings.Contains(err.Error(), "too far"); got != c.refused {
				t.Errorf("%s behind %d segments of %d frames: %v", name, c.missing, c.of, err)
			}
			results := 0
			for _, a := range actions {
				if d, ok := a.(Deliver); ok {
					results += len(d.Results)
				}
			}
			if results > maxGap+c.of || c.refused && results > 0 {
				t.Errorf("%s behind %d segments of %d frames: %d results", name, c.missing, c.of, results)
			}
		}
	}
}
