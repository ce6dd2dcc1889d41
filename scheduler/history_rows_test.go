package scheduler

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// refuse lets an executor answer a pass for which it has no room beside the paused ones.
func (h *history) refuse(executor PeerID) {
	run := h.current[executor]
	if run == nil || h.room == 0 {
		return
	}
	rows := newRowsOf(run)
	for _, p := range h.parked[executor] {
		rows += newRowsOf(p)
	}
	if rows > h.room {
		h.refused++
		h.unload(executor, run)
		delete(h.current, executor)
		h.full[executor] = true
		h.send(executor, &wire.Done{Pass: run.Pass, Err: engine.Errorf(engine.CodeOverloaded, "no room")})
	}
}

func newRowsOf(run *wire.Run) (rows int) {
	for _, item := range parts(run) {
		rows += item.Len() - item.Cached
	}
	return rows
}

// TestPausedPassesHoldRows runs histories on executors that have room for little more than a longest
// pass: what does not fit beside the paused passes is never a job's failure.
func TestPausedPassesHoldRows(t *testing.T) {
	refused := 0
	for seed := range *histories / 50 {
		rng := rand.New(rand.NewPCG(uint64(seed), 55))
		cfg := DefaultConfig()
		cfg.Policy = "srpt"
		cfg.MaxPaused = 1 + rng.IntN(3)
		cfg.FullKV = rng.IntN(4) == 0
		h := newHistory(t, rng, cfg, nil)
		h.longest, h.room, h.deep = 1000, 1000+rng.IntN(500), true
		h.info.CostToken = 10 * time.Millisecond // by which passes are taken to have just begun
		for range 100 {
			h.move()
		}
		h.drain()
		refused += h.refused
	}
	if refused < *histories/200 {
		t.Errorf("%d passes were refused: too few to tell", refused)
	}
}
