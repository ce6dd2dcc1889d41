package scheduler

import (
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// found is what a pass has found for its first job.
func found(d *wire.Done) *engine.TokenOutput { return d.Items[0].Output.(*engine.TokenOutput) }

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
		{"no answer", func(d *wire.Done) { found(d).Answer = nil }, false},
		{"too few scores", func(d *wire.Done) { found(d).Prompt = found(d).Prompt[1:] }, false},
		{"too many scores", func(d *wire.Done) { found(d).Prompt = append(found(d).Prompt, engine.PromptScore{}) }, false},
		{"of another kind", func(d *wire.Done) { d.Items[0].Output = &engine.TensorOutput{} }, false},
		{"none of either kind", func(d *wire.Done) { d.Items[0].Output = nil }, false},
		{"failed item", func(d *wire.Done) { d.Items[0].Err = engine.Errorf(engine.CodeInternal, "why") }, false},
		{"failed pass", func(d *wire.Done) { d.Items, d.Err = nil, engine.Errorf(engine.CodeInternal, "why") }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := basic(t, func(*Config) {})
			w.core.RecordCacheEvents()
			prompt := tokens(1, 40)
			run := runs(w.submit("web", &submission{Job: 1, Tokens: prompt, MaxTokens: 1, Ask: engine.Ask{PromptLogprobs: true}}))[0]
			d := answer(run, time.Millisecond)
			found(d).Prompt = make([]engine.PromptScore, len(prompt)-1)
			c.spoil(d)
			r := results(w.step("cpu", d))
			if len(r) != 1 || (r[0].Err == nil) != c.stored {
				t.Errorf("the job got %s", describeResult(r[0]))
			}
			if stored := len(w.core.CacheEvents()) > 0; stored != c.stored {
				t.Errorf("events of blocks: %v, want %v", stored, c.stored)
			}
			again := runs(w.submit("web", &submission{Job: 2, Tokens: prompt, MaxTokens: 1}))[0]
			if found := item(again, 0).Cached > 0; found != c.stored {
				t.Errorf("the prompt is found in the cache: %v, want %v", found, c.stored)
			}
		})
	}
}
