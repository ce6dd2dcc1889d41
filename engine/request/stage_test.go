package request

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/processors"
)

// newTimedCall makes one with a deadline to a network of which a unit takes 60 ms.
func newTimedCall(deadline time.Duration) (c *Call, another func() *Call) {
	_, pool, _ := newCall(nil)
	pool.Deliver(&wire.Welcome{Epoch: 1, Models: 9, Served: []wire.Served{{
		Name: "eye", State: wire.ModelReady, Executors: 1, Cost: wire.Cost{Unit: 60 * time.Millisecond}, Tensors: &wire.TensorLimits{},
	}}})
	another = func() *Call {
		return New(pool, Origin{Model: "eye", Arrived: time.Now(), Deadline: deadline})
	}
	return another(), another
}

func refusal(err error) *engine.Error {
	var e *engine.Error
	errors.As(err, &e)
	return e
}

// TestLatePassesAreRefusedBeforeTheirInputsAreMade: what devices have to do for others that are being prepared counts, until these end.
func TestLatePassesAreRefusedBeforeTheirInputsAreMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, another := newTimedCall(100 * time.Millisecond)
		if takes, err := first.PlanTensors("eye", 1); err != nil || takes != 60*time.Millisecond {
			t.Fatalf("alone: %v, %v", takes, err)
		}
		second := another()
		_, err := second.PlanTensors("eye", 1)
		if e := refusal(err); e == nil || e.Code != engine.CodeOverloaded || e.RetryAfter != 20*time.Millisecond {
			t.Errorf("behind another: %v, want a refusal for 20ms", err)
		}
		second.Close()
		first.Close()
		if _, err := another().PlanTensors("eye", 1); err != nil {
			t.Errorf("when the others have ended: %v", err)
		}
		patient := another()
		patient.Answering = 50 * time.Millisecond
		if _, err := patient.PlanTensors("eye", 1); refusal(err) == nil {
			t.Error("the making of the answer does not count")
		}
	})
}

// TestSlowPassesAreLookedAtAgain: what waited for a processor while passes took longer than they do alone is refused before its first stage.
func TestSlowPassesAreLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := processors.New(1)
		busy, another := newTimedCall(time.Second)
		var group sync.WaitGroup
		stage := processors.Stage{Kind: "k", Takes: 300 * time.Millisecond}
		plan := func(c *Call) {
			if _, err := c.PlanTensors("eye", 1); err != nil {
				t.Fatal(err)
			}
		}
		plan(busy)
		group.Go(func() {
			_ = busy.RunStage(t.Context(), pool, stage, func() error { time.Sleep(970 * time.Millisecond); return nil })
		})
		synctest.Wait()
		behind := another()
		plan(behind)
		stage.Takes = 25 * time.Millisecond
		err := behind.RunStage(t.Context(), pool, stage, func() error { t.Error("it was begun"); return nil })
		if refusal(err) == nil {
			t.Errorf("got %v, want a refusal", err)
		}
		group.Wait()
		behind.Close()
		busy.Close()
	})
}

// TestStagesThatCannotBeInTimeAreRefused: a first stage is refused for what comes behind it, with when to come back; a later one has the
// deadline's error.
func TestStagesThatCannotBeInTimeAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := processors.New(1)
		busy := func(takes time.Duration) processors.Stage { return processors.Stage{Kind: "k", Takes: takes} }
		var group sync.WaitGroup
		for range 3 { // of which one is left out already
			group.Go(func() {
				_, _ = pool.Do(t.Context(), processors.Stage{Kind: "other", Takes: 60 * time.Millisecond, Due: time.Now().Add(150 * time.Millisecond)}, func() error {
					time.Sleep(60 * time.Millisecond)
					return nil
				})
			})
		}
		synctest.Wait()
		c, another := newTimedCall(150 * time.Millisecond)
		run := func(c *Call, s processors.Stage) error {
			ctx, cancel := c.LimitTime(context.Background())
			defer cancel()
			return c.RunStage(ctx, pool, s, func() error { return nil })
		}
		s := busy(70 * time.Millisecond)
		if e := refusal(run(c, s)); e == nil || e.Code != engine.CodeOverloaded || e.RetryAfter <= 0 {
			t.Errorf("got %v, want a refusal with when to come back", e)
		}
		later := another()
		if err := later.RunStage(t.Context(), pool, busy(0), func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		s.Rest = 90 * time.Millisecond
		if e := refusal(run(later, s)); e == nil || e.Code != engine.CodeDeadline {
			t.Errorf("got %v, want the deadline's error", e)
		}
		group.Wait()
		if err := run(another(), s); refusal(err) == nil {
			t.Errorf("what cannot be in time even alone: %v", err)
		}
	})
}
