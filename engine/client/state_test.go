package client

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// TestLimitsAwaitAnExecutor holds that Limits waits for the first executor of the model and not for one of
// another model, and that the limits stay known when it dies.
func TestLimitsAwaitAnExecutor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newClient(Config{}, nil)
		early := make(chan *State, 1)
		go func() {
			state, err := c.Limits(t.Context())
			if err != nil {
				t.Error(err)
			}
			early <- state
		}()
		time.Sleep(10 * time.Second)
		c.Deliver(&wire.Welcome{Epoch: 9})
		c.Deliver(&wire.Welcome{Epoch: 9, Executors: welcome(9).Executors[:1]})
		synctest.Wait()
		if len(early) > 0 {
			t.Fatal("limits without an executor of the model")
		}
		c.Deliver(welcome(9))
		if got := <-early; got.Serving != 1 || got.MaxModelLen != 128 || got.VocabSize != 300 || got.BlockTokens != 16 || got.NumBlocks != 100 || !got.Heard.Equal(time.Now()) {
			t.Errorf("limits %+v", got)
		}
		c.Deliver(&wire.Welcome{Epoch: 9})
		if got, err := c.Limits(t.Context()); err != nil || got.Serving != 0 || got.MaxModelLen != 128 || got.VocabSize != 300 {
			t.Errorf("after the executor died: %+v, %v", got, err)
		}
	})
}

func TestLimitsGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := func(c *Client, message string) {
			t.Helper()
			_, err := c.Limits(t.Context())
			var e *engine.Error
			if !errors.As(err, &e) || e.Code != engine.CodeUnavailable || !strings.Contains(e.Message, message) {
				t.Errorf("refused with %v, want %q", err, message)
			}
		}
		c, _ := newClient(Config{}, nil)
		start := time.Now()
		refused(c, "no executor has come up to serve demo within 1m0s")
		if waited := time.Since(start); waited != time.Minute {
			t.Errorf("gave up after %v", waited)
		}
		c, _ = welcomed(nil)
		time.Sleep(time.Minute)
		if _, err := c.Limits(t.Context()); err != nil {
			t.Errorf("at the limit: %v", err)
		}
		time.Sleep(time.Second)
		refused(c, "silent for 1m1s")

		c, _ = newClient(Config{}, nil)
		ctx, leave := context.WithCancel(t.Context())
		leave()
		if _, err := c.Limits(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that left: %v", err)
		}
	})
}

// TestReset holds that each caller gets its own answer, and that none is kept waiting or remembered.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := welcomed(nil)
		s.Reset = func(m *wire.Reset) *wire.ResetDone {
			return &wire.ResetDone{Serial: m.Serial, Dropped: 9, Held: 2}
		}
		if done, err := c.Reset(t.Context()); err != nil || done.Dropped != 9 || done.Held != 2 {
			t.Errorf("done %+v, %v", done, err)
		}
		s.Reset = nil
		start := time.Now()
		_, err := c.Reset(t.Context())
		var e *engine.Error
		if !errors.As(err, &e) || e.Code != engine.CodeUnavailable || time.Since(start) != resetTimeout {
			t.Errorf("without an answer: %v after %v", err, time.Since(start))
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err := c.Reset(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that left: %v", err)
		}
		s.Fail(errors.New("no connection"))
		if _, err := c.Reset(t.Context()); !errors.As(err, &e) || e.Code != engine.CodeUnavailable || !strings.Contains(e.Message, "no connection") {
			t.Errorf("without a connection: %v", err)
		}
		if len(c.resets.waiting) != 0 {
			t.Errorf("%d callers wait", len(c.resets.waiting))
		}
		c.Deliver(&wire.ResetDone{Serial: 3}) // too late
	})
}
