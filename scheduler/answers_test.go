package scheduler

import (
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// TestNothingIsStoredByABadAnswer: what a pass has filled is matchable once its answer has been checked, and
// then alone. A job whose answer is none gets an error.
func TestNothingIsStoredByABadAnswer(t *testing.T) {
	for _, c := range []struct {
		name   string
		spoil  func(*wire.Done)
		stored bool
	}{
		{"nothing", func(*wire.Done) {}, true},
		{"other job", func(d *wire.Done) { d.Items[0].Job = 99 }, false},
		{"too many items", func(d *wire.Done) { d.Items = append(d.Items, d.Items[0]) }, false},
		{"no items", func(d *wire.Done) { d.Items = nil }, false},
		{"no answer", func(d *wire.Done) { d.Items[0].Answer = nil }, false},
		{"too few scores", func(d *wire.Done) { d.Items[0].Prompt = d.Items[0].Prompt[1:] }, false},
		{"too many scores", func(d *wire.Done) { d.Items[0].Prompt = append(d.Items[0].Prompt, engine.PromptScore{}) }, false},
		{"failed item", func(d *wire.Done) { d.Items[0].Err = engine.Errorf(engine.CodeInternal, "why") }, false},
		{"failed pass", func(d *wire.Done) { d.Items, d.Err = nil, engine.Errorf(engine.CodeInternal, "why") }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := basic(t, func(*Config) {})
			w.core.RecordCacheEvents()
			prompt := tokens(1, 40)
			run := runs(w.submit("web", &wire.Submit{Job: 1, Tokens: prompt, MaxTokens: 1, Ask: engine.Ask{PromptLogprobs: true}}))[0]
			d := answer(run, time.Millisecond)
			d.Items[0].Prompt = make([]engine.PromptScore, len(prompt)-1)
			c.spoil(d)
			r := results(w.step("cpu", d))
			if len(r) != 1 || (r[0].Err == nil) != c.stored {
				t.Errorf("the job got %s", describeResult(r[0]))
			}
			if stored := len(w.core.CacheEvents()) > 0; stored != c.stored {
				t.Errorf("events of blocks: %v, want %v", stored, c.stored)
			}
			again := runs(w.submit("web", &wire.Submit{Job: 2, Tokens: prompt, MaxTokens: 1}))[0]
			if found := again.Items[0].Cached > 0; found != c.stored {
				t.Errorf("the prompt is found in the cache: %v, want %v", found, c.stored)
			}
		})
	}
}
