package scheduler

import (
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// loading is an executor that has yet to say what it can run.
type loading struct {
	state wire.ExecutorState
	heard time.Duration
}

// noteLoading notes how far an executor is that loads its model. It is not registered: it can run
// nothing, and a predecessor of its name ends by itself.
func (c *Core) noteLoading(m *wire.Hello) {
	if m.State != nil {
		c.loading[m.Name] = loading{*m.State, c.now}
	}
}

// states is what executors have said of themselves: those alive, then those that load.
func (c *Core) states() []wire.ExecutorState {
	var list []wire.ExecutorState
	for _, e := range c.executors {
		if e.peer.state != nil {
			list = append(list, *e.peer.state)
		}
	}
	for _, name := range sortedKeys(c.loading) {
		if l := c.loading[name]; c.now-l.heard < c.cfg.PeerTimeout {
			list = append(list, l.state)
		} else {
			delete(c.loading, name)
		}
	}
	return list
}
