package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// Run delivers the scheduler's messages, and greets it at every heartbeat, until ctx ends; then it
// returns nil. It returns an error when the connection is closed.
func (c *Client) Run(ctx context.Context) error {
	beating, stop := context.WithCancel(ctx)
	var err error
	var group sync.WaitGroup
	group.Go(func() { // ends with ctx or the connection
		err = c.receive(ctx)
		stop()
	})
	c.beat(beating)
	group.Wait()
	return err
}

// receive delivers the scheduler's messages until ctx ends or the connection is closed.
func (c *Client) receive(ctx context.Context) error {
	for {
		msg, err := c.conn.Recv(ctx)
		if err != nil {
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				return nil
			}
			return err
		}
		c.Deliver(msg)
	}
}

// Deliver takes a message from the scheduler, as Run does with those of the connection. It does not block.
func (c *Client) Deliver(msg wire.Message) {
	switch m := msg.(type) {
	case *wire.Result:
		c.result(m)
	case *wire.Welcome:
		c.welcome(m)
	case *wire.ResetDone:
		c.resets.end(m.Serial, m)
	case *wire.Lost:
		c.lost()
	default:
		c.log.Warn("message of a kind a frontend does not expect", zap.String("kind", fmt.Sprintf("%T", msg)))
	}
}

// beat says Hello at once and then as a heartbeat; every Welcome that answers brings the
// scheduler's state.
func (c *Client) beat(ctx context.Context) {
	tick := time.NewTicker(c.cfg.Heartbeat)
	defer tick.Stop()
	ready := c.ready
	for {
		c.hello()
		c.pulse()
		select {
		case <-tick.C:
		case <-ready:
			ready = nil
		case <-ctx.Done():
			return
		}
	}
}

// pulse says that the client works. A connection or jobs that are held for ever stop it.
func (c *Client) pulse() {
	if c.cfg.Pulse != nil {
		c.Jobs()
		c.cfg.Pulse()
	}
}

// hello greets the scheduler. Should that fail, the connection greets it when it is there.
func (c *Client) hello() {
	if err := c.conn.Send(&c.greeting); err != nil {
		c.log.Debug("the scheduler is away", zap.Error(err))
	}
}
