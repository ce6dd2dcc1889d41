package client

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// calls are questions to the scheduler that wait for an answer each.
type calls[Answer any] struct {
	mu      sync.Mutex
	serial  uint64                  // of the last; guarded by mu
	waiting map[uint64]call[Answer] // guarded by mu
}

// call is one question, and the way of its answer.
type call[Answer any] struct {
	serial uint64
	msg    wire.Message
	done   chan Answer // has room for it
}

// begin notes a question, which make gives its serial.
func (w *calls[Answer]) begin(make func(serial uint64) wire.Message) call[Answer] {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting == nil {
		w.waiting = map[uint64]call[Answer]{}
	}
	w.serial++
	c := newCall[Answer](w.serial, make(w.serial))
	w.waiting[w.serial] = c
	return c
}

func newCall[Answer any](serial uint64, msg wire.Message) call[Answer] {
	return call[Answer]{serial, msg, make(chan Answer, 1)}
}

// answerCall hands a caller its answer, once.
func (w *calls[Answer]) answerCall(serial uint64, a Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c, found := w.waiting[serial]; found {
		c.done <- a
		delete(w.waiting, serial)
	}
}

func (w *calls[Answer]) forget(serial uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiting, serial)
}

// resendWaiting asks a scheduler that may know nothing of them all that waits. What cannot be sent waits on.
func (w *calls[Answer]) resendWaiting(conn Conn) {
	w.mu.Lock()
	var all []call[Answer]
	for _, c := range w.waiting {
		all = append(all, c)
	}
	w.mu.Unlock()
	slices.SortFunc(all, func(a, b call[Answer]) int { return cmp.Compare(a.serial, b.serial) })
	for _, c := range all {
		_ = conn.Send(c.msg)
	}
}

// resetTimeout is how long the scheduler may take to answer a Reset.
const resetTimeout = 5 * time.Second

// Reset empties the prefix caches of all that no job holds, and tells what that has done. Its errors are an
// *engine.Error of engine.CodeUnavailable when the scheduler does not answer, and why ctx has ended.
func (c *Client) Reset(ctx context.Context) (*wire.ResetDone, error) {
	asked := c.resets.begin(func(serial uint64) wire.Message { return &wire.Reset{Serial: serial} })
	defer c.resets.forget(asked.serial)
	if err := c.conn.Send(asked.msg); err != nil {
		return nil, engine.Errorf(engine.CodeUnavailable, "the scheduler cannot be reached: %v", err)
	}
	timer := time.NewTimer(resetTimeout)
	defer timer.Stop()
	select {
	case answer := <-asked.done:
		return answer, nil
	case <-timer.C:
		return nil, engine.Errorf(engine.CodeUnavailable, "the scheduler has not answered within %v; it may be restarting", resetTimeout)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Load brings a model onto a device, whatever waits, and keeps it there until it is unloaded. It returns when
// jobs of it can run. Like a job, it outlives a scheduler. Its errors are an *engine.Error, of
// engine.CodeUnavailable when the scheduler is silent for AwayTimeout, and why ctx has ended; then the model is
// loaded all the same.
func (c *Client) Load(ctx context.Context, model string) error { return c.setModel(ctx, model, false) }

// Unload refuses new jobs of a model, and returns when those that were there are done and its memory is given
// back. Its errors are those of Load.
func (c *Client) Unload(ctx context.Context, model string) error { return c.setModel(ctx, model, true) }

func (c *Client) setModel(ctx context.Context, model string, unload bool) error {
	asked := c.settings.begin(func(serial uint64) wire.Message {
		return &wire.SetModel{Serial: serial, Model: model, Unload: unload}
	})
	defer c.settings.forget(asked.serial)
	sent := c.conn.Send(asked.msg) == nil
	tick := time.NewTicker(c.cfg.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case answer := <-asked.done:
			c.sendHello() // for a Welcome that tells it
			if answer.Err != nil {
				return answer.Err
			}
			c.awaitModelState(ctx, model, !unload)
			return nil
		case <-tick.C:
			sent = sent || c.conn.Send(asked.msg) == nil
			if err := c.silenceError(); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// settleTimeout is how long a model that was loaded or unloaded may take to be told so in State. Others may have loaded
// it again.
const settleTimeout = 100 * time.Millisecond

// awaitModelState waits until State says that a model is ready, or is not, so that who has set it sees that.
func (c *Client) awaitModelState(ctx context.Context, model string, ready bool) {
	timer := time.NewTimer(settleTimeout)
	defer timer.Stop()
	for {
		state := c.State()
		if m := state.Models[model]; m == nil || (m.State == wire.ModelReady) == ready {
			return
		}
		select {
		case <-state.changed:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
