package scheduler

import (
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/events"
)

// TestReset holds that a Reset drops what is cached, but for what a running job holds, and that it is told
// as an event.
func TestReset(t *testing.T) {
	w := basic(t, nil)
	w.core.RecordCacheEvents()
	prompt := func(job engine.JobID, stem int) *wire.Run {
		return runs(w.submit("web", &submission{Job: job, Tokens: tokens(stem, 17), MaxTokens: 1}))[0]
	}
	w.step("cpu", answer(prompt(1, 1), time.Second))
	again := prompt(2, 1)
	if item(again, 0).Cached != 16 {
		t.Fatalf("%d tokens are cached before the Reset", item(again, 0).Cached)
	}
	w.step("cpu", answer(again, time.Second))
	if out := w.step("stranger", &wire.Reset{Serial: 1}); len(out) != 0 {
		t.Errorf("a stranger gets %+v", out)
	}
	running := prompt(3, 2)
	done := pick[*wire.ResetDone](w.step("web", &wire.Reset{Serial: 5}))
	if len(done) != 1 || *done[0] != (wire.ResetDone{Serial: 5, Dropped: 4, Held: 4}) {
		t.Fatalf("answered %+v", done)
	}
	if told := w.core.CacheEvents(); len(told) != 1 || told[0].Change != events.Removed || len(told[0].Hashes) != 4 {
		t.Errorf("events %+v", told)
	}
	w.step("cpu", answer(running, time.Second))
	cold := prompt(4, 1)
	w.step("cpu", answer(cold, time.Second))
	if warm := prompt(5, 2); item(cold, 0).Cached != 0 || item(warm, 0).Cached != 16 {
		t.Errorf("after the Reset %d tokens are cached, and %d of the prompt that ran during it", item(cold, 0).Cached, item(warm, 0).Cached)
	}
}
