package scheduler

import (
	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// checkClass holds that a pass is of lowest jobs alone, or of none.
func (h *history) checkClass(to PeerID, run *wire.Run) {
	for i := range run.Items {
		if j := h.core.jobs[run.Items[i].Job]; j != nil && j.Submit.IsLowest() != run.Lowest {
			h.t.Fatalf("%s gets job %v, of priority %d, in pass %d; lowest: %t", to, run.Items[i].Job, j.Priority, run.Pass, run.Lowest)
		}
	}
}

// yield lets a pass of lowest jobs give up its room to one that begins.
func (h *history) yield(executor PeerID) {
	if h.current[executor] == nil || len(h.lowest[executor]) == 0 || h.pick.IntN(8) > 0 {
		return
	}
	run := h.lowest[executor][0]
	h.yielded++
	h.unload(executor, run)
	h.drop(executor, run.Pass)
	delete(h.full, executor) // there is room again
	h.send(executor, &wire.Done{Pass: run.Pass, Err: engine.Errorf(engine.CodeOverloaded, "another took its room")})
}

// checkRoom holds that lowest jobs begin only where no other job waits for weights.
func (h *poolHistory) checkRoom(d *hostOfMany, run *wire.Run) {
	e := h.core.executorAt(d.name)
	for _, inst := range e.Instances {
		m := d.model(inst.Info.Name)
		for j := range inst.Queue.Owners() {
			for _, w := range m.Weights {
				if !d.resident[w] {
					h.t.Fatalf("%s is to run pass %d of lowest jobs while job %d waits for piece %d of %s", d.name, run.Pass, j.Order, w, m.Name)
				}
			}
		}
	}
}
