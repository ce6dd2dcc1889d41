package turns

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestSmallFirstAndNoneForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := New(1, time.Millisecond)
		if err := turns.Take(t.Context(), 1000); err != nil {
			t.Fatal(err)
		}
		var got []int
		var group sync.WaitGroup
		for _, size := range []int{5000, 10, 300, 10_000} {
			group.Go(func() {
				if err := turns.Take(t.Context(), size); err != nil {
					t.Error(err)
				}
				got = append(got, size) // its turn guards it
				turns.Give()
			})
			synctest.Wait()
		}
		time.Sleep(5 * time.Second)
		group.Go(func() { // 5 s later a size of 20 is due after one of 5000
			if err := turns.Take(t.Context(), 20); err != nil {
				t.Error(err)
			}
			got = append(got, 20)
			turns.Give()
		})
		synctest.Wait()
		turns.Give()
		group.Wait()
		if want := []int{10, 300, 5000, 20, 10_000}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestTakeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := New(1, time.Millisecond)
		if err := turns.Take(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := turns.Take(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		turns.Give()
		if err := turns.Take(t.Context(), 1); err != nil {
			t.Errorf("the turn was lost: %v", err)
		}
	})
}

// TestNeverMoreThanAllowed counts under a race of takers, of which half give up.
func TestNeverMoreThanAllowed(t *testing.T) {
	turns := New(3, time.Nanosecond)
	var inside, most atomic.Int32
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			for k := range 50 {
				ctx, cancel := context.WithCancel(context.Background())
				if (i+k)%2 == 0 {
					time.AfterFunc(time.Microsecond, cancel)
				}
				if turns.Take(ctx, i) == nil {
					now := inside.Add(1)
					for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
					}
					inside.Add(-1)
					turns.Give()
				}
				cancel()
			}
		})
	}
	group.Wait()
	if most.Load() > 3 || turns.free != 3 || len(turns.waiting) != 0 {
		t.Errorf("%d at a time; %d free and %d waiting at the end", most.Load(), turns.free, len(turns.waiting))
	}
}
