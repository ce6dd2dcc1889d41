package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// TestPacking looks at the first pass of an executor that finds prompts waiting. A stem's prompts
// begin alike.
func TestPacking(t *testing.T) {
	type prompt struct{ stem, tokens, request int }
	many := func(n int, p prompt) (out []prompt) {
		for i := range n {
			out = append(out, prompt{p.stem + i, p.tokens, p.request})
		}
		return out
	}
	for _, tt := range []struct {
		name    string
		prompts []prompt
		rows    int
		base    float64
		want    []int // tokens of the items
	}{
		{"short ones go together", many(4, prompt{1, 40, 0}), 1000, 128, []int{40, 40, 40, 40}},
		{"as many as the rows hold", many(4, prompt{1, 50, 0}), 120, 128, []int{50, 50}},
		{"one over the limit runs alone", many(2, prompt{1, 500, 0}), 120, 128, []int{500}},
		{"a longer one would hold up the first by more than it spares", many(2, prompt{1, 129, 0}), 1000, 128, []int{129}},
		{"nor is anything spared where an empty pass costs nothing", many(4, prompt{1, 50, 0}), 1000, 0, []int{50}},
		{"a prefix that is being filled is waited for", []prompt{{1, 50, 0}, {1, 51, 0}, {1, 52, 0}}, 1000, 128, []int{50}},
		{"the last of many would hold up the others by more than it is spared", many(5, prompt{1, 50, 0}), 1000, 70, []int{50, 50, 50}},
		{"those of its own request wait for it", many(5, prompt{1, 50, 7}), 1000, 70, []int{50, 50, 50, 50, 50}},
		{"others do not", append(many(3, prompt{1, 50, 7}), many(3, prompt{4, 50, 8})...), 1000, 70, []int{50, 50, 50, 50}},
		{"nor does what comes meanwhile, where it takes more than an empty pass", many(3, prompt{1, 71, 7}), 1000, 70, []int{71, 71}},
		{"prompts shorter than a block share nothing to wait for", []prompt{{1, 3, 0}, {1, 3, 0}, {1, 3, 0}}, 1000, 128, []int{3, 3, 3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, DefaultConfig())
			w.frontend("web")
			for i, p := range tt.prompts {
				w.submit("web", &submission{Job: engine.JobID(i + 1), Tokens: tokens(p.stem, p.tokens), MaxTokens: 1, Request: engine.JobID(p.request)})
			}
			info := executorInfo()
			info.MaxPassRows = tt.rows
			info.CostToken = time.Millisecond
			info.CostBase = time.Duration(tt.base * float64(time.Millisecond))
			var got []int
			for _, item := range parts(runs(w.executor("cpu", 1, info))[0]) {
				got = append(got, item.Len())
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("the pass has prompts of %v tokens, want %v", got, tt.want)
			}
		})
	}
}

// TestPackingDoesNotPassAPausedPass has jobs that a paused pass goes before wait in numbers that would
// pay for packing them.
func TestPackingDoesNotPassAPausedPass(t *testing.T) {
	w := basic(t, func(c *Config) { c.Policy = "srpt" })
	w.submit("web", &submission{Job: 1, Tokens: tokens(1, 2000), MaxTokens: 1})
	for i := range 20 {
		w.submit("web", &submission{Job: engine.JobID(10 + i), Tokens: tokens(10+i, 1900), MaxTokens: 1})
	}
	if out := w.submit("web", &submission{Job: 2, Tokens: tokens(2, 100), MaxTokens: 1}); len(pick[*wire.Pause](out)) != 1 {
		t.Fatalf("the short job sent %+v, want a pause", out)
	}
	run := runs(w.step("cpu", &wire.Paused{Pass: 1}))[0]
	if len(run.Items) != 1 || run.Items[0].Job != 2 {
		t.Errorf("the pass has %d items, want the short job alone", len(run.Items))
	}
	if out := w.step("cpu", answer(run, time.Second)); len(pick[*wire.Resume](out)) != 1 {
		t.Errorf("after it %+v, want the paused pass to go on", out)
	}
}

// TestBlockedJobIsNotStarved has a job that needs every page wait behind one that generates, while
// jobs of a middle priority keep coming: they must not get pages before it.
func TestBlockedJobIsNotStarved(t *testing.T) {
	w := basic(t, func(c *Config) { c.Policy = "priority" })
	w.submit("web", &submission{Job: 1, Tokens: tokens(1, 40), MaxTokens: 4, Priority: 2})
	w.submit("web", &submission{Job: 2, Tokens: tokens(2, 397), MaxTokens: 2, Priority: 0})
	e := w.core.fleet.Executors[0]
	for i := range 100 {
		id := engine.JobID(10 + i)
		w.submit("web", &submission{Job: id, Tokens: tokens(int(id), 40), MaxTokens: 4, Priority: 1})
		d := &wire.Done{Pass: e.Running.ID, Took: time.Millisecond}
		for _, j := range e.Running.Items {
			if j.Submit.ID == 2 {
				return
			}
			d.Items = append(d.Items, answered(j.Submit.ID, &engine.Answer{}))
		}
		w.step("cpu", d)
	}
	t.Error("the job that needs 100 pages has not begun after 100 passes of smaller ones")
}
