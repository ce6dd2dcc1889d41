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

// setGreeting has heartbeats say what the runner can run, or no longer.
func (e *executor) setGreeting(whole bool) {
	h := *e.greeting.Load()
	h.Executor = nil
	if whole {
		h.Executor = e.info
	}
	e.greeting.Store(&h)
}

// readRunnerInfo asks the runner what it can run now.
func (e *executor) readRunnerInfo() {
	info := e.runner.Info()
	for i := range info.Models {
		m := &info.Models[i]
		if l := e.steps[m.Name]; l != nil {
			m.Step = max(m.Step, l.stepBound())
		}
	}
	e.info = &info
}

// tell says what the runner can run now; until the scheduler has settled, heartbeats do so again.
func (e *executor) tell() {
	e.readRunnerInfo()
	e.setGreeting(true)
	e.sendHello()
	if e.settled {
		e.endTelling()
	}
}

// endTelling ends the telling by a Hello without it: the last Hello goes first on a new connection, and to a new
// scheduler what it tells is to be nothing but that this epoch was another one's.
func (e *executor) endTelling() {
	e.setGreeting(false)
	e.sendHello()
}

// noteWelcome takes note of a Welcome.
func (e *executor) noteWelcome(scheduler uint64) {
	switch e.scheduler {
	case scheduler:
		if !e.settled {
			e.settled = true
			e.endTelling()
		}
	case 0:
		e.scheduler = scheduler
		e.sendHello()
	default:
		e.forget("the scheduler was restarted")
	}
}

// forget drops all passes and loads under a new epoch, and says so.
func (e *executor) forget(why string) {
	e.cfg.Log.Info("dropping all passes", zap.String("reason", why), zap.Int("passes", len(e.allPasses())), zap.Int("loads", len(e.loads)))
	e.dropAll()
	e.loads, e.owed = nil, 0
	e.scheduler, e.settled = 0, false
	e.readRunnerInfo()
	h := e.newGreeting()
	h.Executor = e.info
	e.greeting.Store(h)
	e.sendHello()
}

// sendHeartbeats says Hello at once and then as a heartbeat. It is apart from the loop, which may be inside a
// long step.
func (e *executor) sendHeartbeats(ctx context.Context) {
	tick := time.NewTicker(e.cfg.Heartbeat)
	defer tick.Stop()
	for {
		e.sendHello()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (e *executor) sendHello() {
	m := *e.greeting.Load()
	if e.cfg.State != nil {
		m.State = e.cfg.State()
	}
	e.sendMessage(&m)
}

// sendMessage drops m when the scheduler is away: it will ask for the pass again.
func (e *executor) sendMessage(m wire.Message) {
	if err := e.conn.Send(m); err != nil {
		e.cfg.Log.Debug("message dropped", zap.Error(err))
	}
}
