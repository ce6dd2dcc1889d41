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

// Serve runs the client for as long as serve does, which brings it jobs. The context of serve ends with ctx, and
// when the connection to the scheduler is closed; then that is the error.
func (c *Client) Serve(ctx context.Context, serve func(ctx context.Context) error) error {
	following, unfollow := context.WithCancelCause(context.WithoutCancel(ctx))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var group sync.WaitGroup
	group.Go(func() { // ends with following
		unfollow(c.Run(following))
		stop()
	})
	err := serve(ctx)
	unfollow(nil)
	group.Wait()
	if cause := context.Cause(following); !errors.Is(cause, context.Canceled) {
		return fmt.Errorf("connection to the scheduler: %w", cause)
	}
	return err
}

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
	c.sendHeartbeats(beating)
	group.Wait()
	c.fetches.Wait()
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
		c.deliverResult(m)
	case *wire.Welcome:
		c.handleWelcome(m)
	case *wire.ResetDone:
		c.resets.answerCall(m.Serial, m)
	case *wire.ModelSet:
		c.settings.answerCall(m.Serial, m)
	case *wire.Lost:
		c.noteLostMessages()
	default:
		c.log.Warn("message of a kind a frontend does not expect", zap.String("kind", fmt.Sprintf("%T", msg)))
	}
}

// sendHeartbeats says Hello at once and then as a heartbeat; every Welcome that answers brings the
// scheduler's state. It does not wait with the pulse when the models change.
func (c *Client) sendHeartbeats(ctx context.Context) {
	tick := time.NewTicker(c.cfg.Heartbeat)
	defer tick.Stop()
	c.sendHello()
	for {
		changed := c.State().changed
		c.sendPulse()
		select {
		case <-tick.C:
			c.sendHello()
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// sendPulse says that the client works. A connection or jobs that are held for ever stop it.
func (c *Client) sendPulse() {
	if c.cfg.Pulse != nil {
		c.Jobs()
		c.cfg.Pulse()
	}
}

// sendHello greets the scheduler. Should that fail, the connection greets it when it is there.
func (c *Client) sendHello() {
	greeting := &wire.Hello{Role: wire.RoleFrontend, Name: c.cfg.Name, Epoch: c.epoch, Models: c.State().revision}
	if err := c.conn.Send(greeting); err != nil {
		c.log.Debug("the scheduler is away", zap.Error(err))
	}
}
