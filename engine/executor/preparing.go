package executor

import (
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// preparing is the passes that are being prepared beside the device, one at a time.
type preparing struct {
	list  []*task    // in the order in which they have begun; the first one is being prepared
	ended chan error // of the first one; what is sent is taken before the next one begins, or the executor ends
}

func newPreparing() preparing { return preparing{ended: make(chan error, 1)} }

// preparePass takes a pass from the device until it is prepared, and tells the scheduler, who may run others.
func (e *executor) preparePass(t *task) {
	e.removePass(t)
	e.preparing.list = append(e.preparing.list, t)
	e.sendMessage(&wire.Paused{Pass: t.run.Pass, Prepares: true})
	if len(e.preparing.list) == 1 {
		e.prepareNext()
	}
}

// prepareNext begins to prepare the first pass, in a goroutine that ends with that.
func (e *executor) prepareNext() {
	t, ended := e.preparing.list[0], e.preparing.ended
	go func() {
		ended <- e.guardPanic(func() error { t.prepare(); return nil }, zap.Uint64("pass", uint64(t.run.Pass)))
	}()
}

// finishPreparing takes up a pass that is prepared, as a paused one, and goes on with the next.
func (e *executor) finishPreparing(err error) {
	t := e.preparing.list[0]
	e.preparing.list = e.preparing.list[1:]
	t.prepare = nil
	switch {
	case t.dropped:
		e.close(t)
	case err != nil:
		e.finishPass(t, err)
	default:
		e.paused[t.run.Pass] = t
		e.sendMessage(&wire.Paused{Pass: t.run.Pass})
	}
	for len(e.preparing.list) > 0 {
		if next := e.preparing.list[0]; !next.dropped {
			e.prepareNext()
			return
		} else {
			e.preparing.list = e.preparing.list[1:]
			e.close(next)
		}
	}
}

// stopPreparing waits for the pass that is being prepared, and closes all.
func (e *executor) stopPreparing() {
	for len(e.preparing.list) > 0 {
		for _, t := range e.preparing.list {
			t.dropped = true
		}
		e.finishPreparing(<-e.preparing.ended)
	}
}
