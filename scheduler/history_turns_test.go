package scheduler

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/executors"
)

// passedOver is which jobs waited when an executor's last pass began, and of which kind that one was not.
type passedOver struct {
	byPolicy   map[engine.JobID]bool // to be computed, in need of no pages, while the pass began with one that generates
	generating map[engine.JobID]bool // to generate, while the pass had none that does
}

// checkTurns holds that no two passes in a row pass over one kind of jobs that wait.
func (h *history) checkTurns(to PeerID, run *wire.Run) {
	now := passedOver{map[engine.JobID]bool{}, map[engine.JobID]bool{}}
	e := h.core.executorAt(to)
	items := e.Running.Items
	for j := range e.Instances[0].Queue.Owners() {
		switch {
		case j.Continues() && !slices.ContainsFunc(items, func(j *executors.Job) bool { return j.Continues() }):
			now.generating[j.Submit.ID] = true
		case !j.Continues() && !j.Paged && items[0].Continues():
			now.byPolicy[j.Submit.ID] = true
		}
	}
	before := h.passed[to]
	for id := range now.byPolicy {
		if before.byPolicy[id] {
			h.t.Fatalf("job %v waits while a second pass begins with one that generates: %s", id, describeMessage(run))
		}
	}
	for id := range now.generating {
		if before.generating[id] {
			h.t.Fatalf("job %v waits for its turn while a second pass has none that generates: %s", id, describeMessage(run))
		}
	}
	h.passed[to] = now
}
