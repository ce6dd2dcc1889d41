package scheduler

import (
	"maps"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/executors"
)

// opening is an executor that has yet to say what it can run.
type opening struct {
	state wire.ExecutorState
	heard time.Duration
}

// noteOpening notes how far an executor is that opens its models. It is not registered: it can run
// nothing, and a predecessor of its name ends by itself.
func (c *Core) noteOpening(m *wire.Hello) {
	if m.State != nil {
		c.opening[m.Name] = opening{*m.State, c.fleet.Now}
	}
}

// executorStates is what executors have said of themselves, and what they run: those alive, then those that open.
func (c *Core) executorStates() []wire.ExecutorState {
	var list []wire.ExecutorState
	for _, e := range c.fleet.Executors {
		if told := c.peers[e.ID].state; told != nil {
			state := *told
			state.Device, state.Passes = e.Info.Device, passStates(e)
			list = append(list, state)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.opening)) {
		if o := c.opening[name]; c.fleet.Now-o.heard < c.cfg.PeerTimeout {
			list = append(list, o.state)
		} else {
			delete(c.opening, name)
		}
	}
	return list
}

// passStates are the passes that an executor has begun, the running one first.
func passStates(e *executors.Executor) []wire.PassState {
	var list []wire.PassState
	for _, p := range e.Passes() {
		ran := time.Duration(e.SecondsSpent(p) * float64(time.Second))
		list = append(list, wire.PassState{Model: p.Instance.Info.Name, Jobs: len(p.Items), Units: uint64(p.Work.Units), Ran: max(0, ran), Place: placeOf(e, p)})
	}
	return list
}

func placeOf(e *executors.Executor, p *executors.Pass) wire.PassPlace {
	switch {
	case p == e.Running:
		return wire.PassRuns
	case p == e.Nested:
		return wire.PassNested
	case slices.Contains(e.Preparing, p): // a lowest one, too
		return wire.PassPreparing
	case p.IsLowest():
		return wire.PassLowest
	}
	return wire.PassPaused
}
