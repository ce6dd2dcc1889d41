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
		early := make(chan *wire.Served, 1)
		go func() {
			model, err := c.Model(t.Context(), "demo")
			if err != nil {
				t.Error(err)
			}
			early <- model
		}()
		time.Sleep(10 * time.Second)
		c.Deliver(&wire.Welcome{Epoch: 9})
		c.Deliver(&wire.Welcome{Epoch: 9, Models: 7, Served: welcome(9).Served[:1]})
		synctest.Wait()
		if len(early) > 0 {
			t.Fatal("limits without an executor of the model")
		}
		c.Deliver(welcome(9))
		if got := <-early; got.Executors != 1 || *got.Tokens != (wire.TokenLimits{MaxModelLen: 128, VocabSize: 300, BlockTokens: 16, NumBlocks: 100}) || !c.State().Heard.Equal(time.Now()) {
			t.Errorf("limits %+v", got)
		}
		for i, left := range [][]wire.Served{{{Name: "demo"}}, nil} {
			c.Deliver(&wire.Welcome{Epoch: 9, Models: uint64(2 + i), Served: left})
			if got, err := c.Model(t.Context(), "demo"); err != nil || got.State != wire.ModelAbsent || got.Executors != 0 || got.Tokens.MaxModelLen != 128 || got.Tokens.VocabSize != 300 {
				t.Errorf("after the executor died: %+v, %v", got, err)
			}
		}
	})
}

func TestLimitsGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := func(c *Client, message string) {
			t.Helper()
			_, err := c.Model(t.Context(), "demo")
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
		if _, err := c.Model(t.Context(), "demo"); err != nil {
			t.Errorf("at the limit: %v", err)
		}
		time.Sleep(time.Second)
		refused(c, "silent for 1m1s")

		c, _ = newClient(Config{}, nil)
		ctx, leave := context.WithCancel(t.Context())
		leave()
		if _, err := c.Model(ctx, "demo"); !errors.Is(err, context.Canceled) {
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

// TestRevisions holds that a client says by which revision it knows the models, and takes no scheduler's word for
// another's: two of them may number different models alike.
func TestRevisions(t *testing.T) {
	c, s := newClient(Config{}, nil)
	known := func() uint64 {
		c.sendHello()
		hellos := s.Hellos()
		return hellos[len(hellos)-1].Models
	}
	if known() != 0 {
		t.Error("a client that has heard nothing knows models")
	}
	c.Deliver(welcome(1))
	c.Deliver(&wire.Welcome{Epoch: 1, Models: 1, Pool: wire.Stats{Retries: 7}}) // nothing new of models
	if m := c.State().Models["demo"]; known() != 1 || m.Executors != 1 || c.State().Pool.Retries != 7 {
		t.Errorf("known by %d: %+v", known(), m)
	}
	c.Deliver(&wire.Welcome{Epoch: 2, Models: 1}) // to a Hello that named the revision of the first
	if m := c.State().Models["demo"]; known() != 0 || m.Tokens.MaxModelLen != 128 {
		t.Errorf("known by %d: %+v", known(), m)
	}
	other := welcome(2)
	other.Served = []wire.Served{{Name: "demo", Executors: 3, State: wire.ModelLoading, Tokens: &wire.TokenLimits{MaxModelLen: 64, VocabSize: 9}}}
	c.Deliver(other)
	if m := c.State().Models["demo"]; known() != 1 || m.Executors != 3 || m.State != wire.ModelLoading || m.Tokens.MaxModelLen != 64 {
		t.Errorf("known by %d: %+v", known(), m)
	}
	if m := c.State().Models["other"]; m == nil || m.Executors != 0 || m.State != wire.ModelAbsent {
		t.Errorf("a model that the second scheduler has not heard of: %+v", m)
	}
}

// TestFailedModel holds that a model that no executor can run is refused with the reason at once, and not for ever.
func TestFailedModel(t *testing.T) {
	c, _ := newClient(Config{}, nil)
	c.Deliver(&wire.Welcome{Epoch: 1, Models: 1, Served: []wire.Served{{Name: "demo", State: wire.ModelFailed, Reason: "config.json: no such file"}}})
	_, err := c.Model(t.Context(), "demo")
	refused(t, err, engine.CodeUnavailable, "the model demo cannot be run: config.json: no such file")
	if _, err = c.NewJob(asking('a'), time.Now(), nil, 0); err == nil {
		t.Error("a job for it is taken")
	}
	c.Deliver(&wire.Welcome{Epoch: 1, Models: 2, Served: welcome(1).Served})
	if m, err := c.Model(t.Context(), "demo"); err != nil || m.State != wire.ModelReady {
		t.Errorf("when it is mended: %+v, %v", m, err)
	}
	failed := welcome(1).Served[1]
	failed.State, failed.Reason = wire.ModelFailed, "out of memory"
	c.Deliver(&wire.Welcome{Epoch: 1, Models: 3, Served: []wire.Served{failed}})
	if _, err = c.NewJob(asking('a'), time.Now(), nil, 0); err != nil {
		t.Errorf("a model whose load failed is not tried again: %v", err)
	}
}

// TestSetModel holds that loads and unloads are answered, outlive a scheduler and a broken connection, and do not wait
// for ever.
func TestSetModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := welcomed(nil)
		s.Set = func(m *wire.SetModel) *engine.Error {
			if m.Unload {
				return engine.Errorf(engine.CodeUnavailable, "no model %s", m.Model)
			}
			return nil
		}
		if err := c.Load(t.Context(), "demo"); err != nil {
			t.Error(err)
		}
		if n := len(s.Hellos()); n != 2 {
			t.Errorf("%d Hellos; one is due for what has changed", n)
		}
		refused(t, c.Unload(t.Context(), "demo"), engine.CodeUnavailable, "no model demo")

		var asked []*wire.SetModel
		s.Set = nil
		s.Fail(errors.New("no connection"))
		loaded := make(chan error, 1)
		go func() { loaded <- c.Load(t.Context(), "slow") }()
		synctest.Wait()
		s.Fail(nil)
		s.Set = func(m *wire.SetModel) *engine.Error { asked = append(asked, m); s.Set = nil; return nil }
		c.Deliver(welcome(2)) // a new scheduler is asked at once
		if err := <-loaded; err != nil || len(asked) != 1 || asked[0].Model != "slow" {
			t.Errorf("got %v, asked %+v", err, asked)
		}

		start := time.Now()
		err := c.Load(t.Context(), "demo") // and nobody says anything
		refused(t, err, engine.CodeUnavailable, "silent for 1m1s")
		if waited := time.Since(start); waited != 61*time.Second {
			t.Errorf("gave up after %v", waited)
		}
		ctx, leave := context.WithCancel(t.Context())
		leave()
		if err := c.Load(ctx, "demo"); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that left: %v", err)
		}
		if len(c.settings.waiting) != 0 {
			t.Errorf("%d callers wait", len(c.settings.waiting))
		}
		c.Deliver(&wire.ModelSet{Serial: 3}) // too late
	})
}
