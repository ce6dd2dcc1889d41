package client

import (
	"context"
	"sync"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// resetTimeout is how long the scheduler may take to answer a Reset.
const resetTimeout = 5 * time.Second

// resets are the callers that wait for a ResetDone.
type resets struct {
	mu      sync.Mutex
	serial  uint64                          // of the last; guarded by mu
	waiting map[uint64]chan *wire.ResetDone // each with room for its answer; guarded by mu
}

func (w *resets) begin() (serial uint64, done chan *wire.ResetDone) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting == nil {
		w.waiting = map[uint64]chan *wire.ResetDone{}
	}
	w.serial++
	done = make(chan *wire.ResetDone, 1)
	w.waiting[w.serial] = done
	return w.serial, done
}

// end forgets a caller, and hands it its answer if there is one.
func (w *resets) end(serial uint64, answer *wire.ResetDone) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if done := w.waiting[serial]; done != nil && answer != nil {
		done <- answer
	}
	delete(w.waiting, serial)
}

// Reset empties the prefix caches of all that no job holds, and tells what that has done. Its errors are an
// *engine.Error of engine.CodeUnavailable when the scheduler does not answer, and why ctx has ended.
func (c *Client) Reset(ctx context.Context) (*wire.ResetDone, error) {
	serial, done := c.resets.begin()
	defer c.resets.end(serial, nil)
	if err := c.conn.Send(&wire.Reset{Serial: serial}); err != nil {
		return nil, engine.Errorf(engine.CodeUnavailable, "the scheduler cannot be reached: %v", err)
	}
	timer := time.NewTimer(resetTimeout)
	defer timer.Stop()
	select {
	case answer := <-done:
		return answer, nil
	case <-timer.C:
		return nil, engine.Errorf(engine.CodeUnavailable, "the scheduler has not answered within %v; it may be restarting", resetTimeout)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
