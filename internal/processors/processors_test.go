package processors

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// work is a stage that takes so long.
func work(takes time.Duration) func() error { return func() error { time.Sleep(takes); return nil } }

func expectIdle(t *testing.T, p *Pool) {
	t.Helper()
	if waiting, running := p.Load(); waiting != 0 || running != 0 || len(p.open) != 0 {
		t.Errorf("%d wait and %d run, %d are to be told of it, want none", waiting, running, len(p.open))
	}
}

func TestNoMoreRunThanThereAreSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(2)
		var running, most atomic.Int32
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				_, err := p.Do(t.Context(), Stage{Takes: 100 * time.Millisecond}, func() error {
					most.Store(max(most.Load(), running.Add(1)))
					defer running.Add(-1)
					return work(100 * time.Millisecond)()
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if most.Load() != 2 {
			t.Errorf("%d run at a time, want 2", most.Load())
		}
		expectIdle(t, p)
	})
}

func TestQuickWorkWaitsForNone(t *testing.T) {
	p := New(1)
	_, err := p.Do(t.Context(), Stage{Takes: time.Second}, func() error {
		waited, err := p.Do(context.Background(), Stage{Takes: quick}, func() error { return nil })
		if waited != 0 {
			t.Errorf("it waited for %v", waited)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestWhoLeavesLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(1)
		gone := errors.New("gone")
		ctx, leave := context.WithCancelCause(t.Context())
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() {
				if _, err := p.Do(ctx, Stage{Takes: time.Second}, work(time.Minute)); err != nil && !errors.Is(err, gone) {
					t.Errorf("got %v, want why the context has ended", err)
				}
			})
		}
		synctest.Wait()
		leave(gone)
		group.Wait()
		expectIdle(t, p)
	})
}

func TestWhatCannotBeInTimeIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(1)
		var group sync.WaitGroup
		group.Go(func() { _, _ = p.Do(t.Context(), Stage{Takes: time.Second}, work(time.Second)) })
		synctest.Wait()
		_, err := p.Do(t.Context(), Stage{Takes: 100 * time.Millisecond, Due: time.Now().Add(500 * time.Millisecond)}, work(0))
		var late *LateError
		if !errors.As(err, &late) || late.Refused {
			t.Errorf("got %v, want a LateError of one that waited", err)
		}
		group.Wait()
		group.Go(func() { _, _ = p.Do(t.Context(), Stage{Takes: time.Second}, work(time.Second)) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		for _, s := range []Stage{{Kind: "a", Takes: time.Second, First: true}, {Kind: "a", Takes: 100 * time.Millisecond}} {
			_, _ = p.Do(ctx, s, work(0))
		}
		leaving, leave := context.WithCancel(t.Context())
		group.Go(func() { _, _ = p.Do(leaving, Stage{Kind: "b", Takes: time.Second}, work(0)) })
		synctest.Wait()
		want := []Kind{{Name: "", Running: 1, Late: 1}, {Name: "a", Late: 1, Refused: 1}, {Name: "b", Waiting: 1}}
		if got := p.Kinds(); !slices.Equal(got, want) {
			t.Errorf("kinds %+v, want %+v", got, want)
		}
		leave()
		group.Wait()
		want = []Kind{{Late: 1}, {Name: "a", Late: 1, Refused: 1}, {Name: "b"}}
		if got := p.Kinds(); !slices.Equal(got, want) {
			t.Errorf("kinds %+v, want %+v", got, want)
		}
		expectIdle(t, p)
	})
}

// TestWhatFailsTeachesNothing of how long the like of it takes: it may have ended before it did anything.
func TestWhatFailsTeachesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(1)
		stage := Stage{Kind: "k", Takes: 100 * time.Millisecond, First: true}
		broken := errors.New("broken")
		for range 200 {
			if _, err := p.Do(t.Context(), stage, func() error { return broken }); !errors.Is(err, broken) {
				t.Fatal(err)
			}
		}
		stage.Due = time.Now().Add(90 * time.Millisecond)
		var late *LateError
		if _, err := p.Do(t.Context(), stage, work(0)); !errors.As(err, &late) || !late.Refused {
			t.Errorf("got %v, want a refusal", err)
		}
		expectIdle(t, p)
	})
}

// TestWithinAStage: what a stage calls runs in its slot, and others run where it yields.
func TestWithinAStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(1)
		var order []string
		var group sync.WaitGroup
		other := func(name string) {
			group.Go(func() {
				_, err := p.Do(t.Context(), Stage{Takes: 50 * time.Millisecond}, func() error { order = append(order, name); return nil })
				if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		ctx := WithSeat(t.Context())
		_, err := p.Do(ctx, Stage{Takes: 10 * time.Second}, func() error {
			if _, err := p.Do(ctx, Stage{Takes: time.Second}, work(0)); err != nil {
				return err
			}
			other("another")
			if err := Yield(ctx); err != nil {
				return err
			}
			order = append(order, "it goes on")
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		group.Wait()
		if want := []string{"another", "it goes on"}; !slices.Equal(order, want) {
			t.Errorf("got %q, want %q", order, want)
		}
		expectIdle(t, p)
	})
}

// TestSlotLostInYield: who leaves while another goes before the rest of his stage holds no slot.
func TestSlotLostInYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(1)
		ctx, leave := context.WithCancel(WithSeat(t.Context()))
		var group sync.WaitGroup
		_, err := p.Do(ctx, Stage{Takes: 10 * time.Second}, func() error {
			group.Go(func() { _, _ = p.Do(t.Context(), Stage{Takes: time.Second}, work(time.Second)) })
			synctest.Wait()
			leave()
			return Yield(ctx)
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that the context has ended", err)
		}
		group.Wait()
		expectIdle(t, p)
	})
}

func TestSpareSlotsAreForThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(2)
		done, ok := p.Try(Stage{Takes: 100 * time.Millisecond})
		if !ok {
			t.Fatal("no slot is to spare, want one")
		}
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() { _, _ = p.Do(t.Context(), Stage{Takes: 100 * time.Millisecond}, work(100*time.Millisecond)) })
		}
		synctest.Wait()
		if !p.Wanting() {
			t.Error("one waits, and nobody wants a slot")
		}
		if _, ok := p.Try(Stage{Takes: time.Millisecond}); ok {
			t.Error("a slot is to spare though one waits")
		}
		done()
		group.Wait()
		expectIdle(t, p)
	})
}

func BenchmarkDo(b *testing.B) {
	p := New(2)
	for b.Loop() {
		_, _ = p.Do(b.Context(), Stage{Kind: "k", Takes: time.Millisecond}, func() error { return nil })
	}
}
