package executor

import (
	"context"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// newGreeting is a Hello under a new epoch.
func (e *executor) newGreeting() *wire.Hello {
	return &wire.Hello{Role: wire.RoleExecutor, Name: e.cfg.Name, Epoch: rand.Uint64()}
}

// greet has heartbeats say what the runner can run, or no longer.
func (e *executor) greet(whole bool) {
	h := *e.greeting.Load()
	h.Executor = nil
	if whole {
		h.Executor = e.info
	}
	e.greeting.Store(&h)
}

// look asks the runner what it can run now.
func (e *executor) look() {
	info := e.runner.Info()
	for i := range info.Models {
		m := &info.Models[i]
		if l := e.steps[m.Name]; l != nil {
			m.Step = max(m.Step, l.step())
		}
	}
	e.info = &info
}

// tell says what the runner can run now; until the scheduler has settled, heartbeats do so again.
func (e *executor) tell() {
	e.look()
	e.greet(true)
	e.hello()
	if e.settled {
		e.told()
	}
}

// told ends the telling by a Hello without it: the last Hello goes first on a new connection, and to a new
// scheduler what it tells is to be nothing but that this epoch was another one's.
func (e *executor) told() {
	e.greet(false)
	e.hello()
}

// welcomed takes note of a Welcome.
func (e *executor) welcomed(scheduler uint64) {
	switch e.scheduler {
	case scheduler:
		if !e.settled {
			e.settled = true
			e.told()
		}
	case 0:
		e.scheduler = scheduler
		e.hello()
	default:
		e.forget("the scheduler was restarted")
	}
}

// forget drops all passes and loads under a new epoch, and says so.
func (e *executor) forget(why string) {
	e.cfg.Log.Info("dropping all passes", zap.String("reason", why), zap.Int("passes", len(e.all())), zap.Int("loads", len(e.loads)))
	e.dropAll()
	e.loads, e.owed = nil, 0
	e.scheduler, e.settled = 0, false
	e.look()
	h := e.newGreeting()
	h.Executor = e.info
	e.greeting.Store(h)
	e.hello()
}

// beat says Hello at once and then as a heartbeat. It is apart from the loop, which may be inside a
// long step.
func (e *executor) beat(ctx context.Context) {
	tick := time.NewTicker(e.cfg.Heartbeat)
	defer tick.Stop()
	for {
		e.hello()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (e *executor) hello() {
	m := *e.greeting.Load()
	if e.cfg.State != nil {
		m.State = e.cfg.State()
	}
	e.send(&m)
}

// send drops m when the scheduler is away: it will ask for the pass again.
func (e *executor) send(m wire.Message) {
	if err := e.conn.Send(m); err != nil {
		e.cfg.Log.Debug("message dropped", zap.Error(err))
	}
}
