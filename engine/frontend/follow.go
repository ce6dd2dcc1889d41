package frontend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// receive delivers the scheduler's messages until ctx ends or the connection is closed.
func (f *Frontend) receive(ctx context.Context) error {
	for {
		msg, err := f.conn.Recv(ctx)
		if err != nil {
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				return nil
			}
			return err
		}
		f.deliver(msg)
	}
}

// deliver takes a message from the scheduler. It does not block.
func (f *Frontend) deliver(msg wire.Message) {
	switch m := msg.(type) {
	case *wire.Result:
		f.jobs.result(m)
	case *wire.Welcome:
		f.jobs.welcome(m)
	case *wire.ResetDone:
		f.resets.end(m.Serial, m)
	case *wire.Lost:
		f.jobs.lost()
	default:
		f.log.Warn("message of a kind a frontend does not expect", zap.String("kind", fmt.Sprintf("%T", msg)))
	}
}

// beat says Hello at once and then as a heartbeat; every Welcome that answers brings the
// scheduler's state.
func (f *Frontend) beat(ctx context.Context) {
	tick := time.NewTicker(f.cfg.Heartbeat)
	defer tick.Stop()
	ready := f.jobs.ready
	for {
		f.jobs.hello()
		f.pulse()
		select {
		case <-tick.C:
		case <-ready:
			ready = nil
		case <-ctx.Done():
			return
		}
	}
}

// pulse says that the frontend works. A connection or a table of jobs that is held for ever stops it.
func (f *Frontend) pulse() {
	if f.cfg.Pulse != nil {
		f.jobs.counts()
		f.cfg.Pulse(f.unhealthy() == "", f.unready() == "")
	}
}
