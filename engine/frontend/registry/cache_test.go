package registry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// handle is a value that knows whether it is open.
type handle struct{ closed atomic.Bool }

// TestUsedStaysOpen asks for keys from many goroutines: what is used is never closed, and in the end no more than
// the limit are open.
func TestUsedStaysOpen(t *testing.T) {
	const limit, keys = 3, 8
	var open [keys]atomic.Int32
	owner := sync.Map{}
	cache := newCache[int](limit, func(h *handle) {
		h.closed.Store(true)
		key, _ := owner.Load(h)
		open[key.(int)].Add(-1)
	})
	var group sync.WaitGroup
	for seed := range uint64(8) {
		group.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			for range 2000 {
				key := r.IntN(keys)
				h, release, err := cache.Get(t.Context(), key, func() (*handle, error) {
					open[key].Add(1)
					h := &handle{}
					owner.Store(h, key)
					return h, nil
				})
				if err != nil || h.closed.Load() {
					t.Errorf("key %d: %v, closed %v", key, err, h.closed.Load())
					return
				}
				if r.IntN(4) == 0 {
					time.Sleep(time.Microsecond)
				}
				if h.closed.Load() {
					t.Errorf("key %d was closed while it was used", key)
				}
				release()
			}
		})
	}
	group.Wait()
	total := int32(0)
	for i := range open {
		total += open[i].Load()
	}
	if total != limit || cache.Room() {
		t.Errorf("%d are open", total)
	}
}

func TestLongestUnusedIsClosed(t *testing.T) {
	var closed []string
	cache := newCache[string](2, func(v string) { closed = append(closed, v) })
	get := func(key string) func() {
		_, release, err := cache.Get(t.Context(), key, func() (string, error) { return key, nil })
		if err != nil {
			t.Fatal(err)
		}
		return release
	}
	holdA := get("a")
	get("b")()
	get("c")()
	if fmt.Sprint(closed) != "[b]" {
		t.Errorf("closed %v; a is used, and c came later", closed)
	}
	holdC, holdD := get("c"), get("d")
	if fmt.Sprint(closed) != "[b]" {
		t.Errorf("closed %v; all are used", closed)
	}
	holdA()
	holdC()
	holdD()
	if fmt.Sprint(closed) != "[b a]" {
		t.Errorf("closed %v", closed)
	}
}

func TestFailuresAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, tries := newCache[string](2, func(int) {}), 0
		ask := func() error {
			_, release, err := cache.Get(t.Context(), "a", func() (int, error) {
				if tries++; tries == 1 {
					time.Sleep(time.Second)
					return 0, errors.New("no file")
				}
				return 1, nil
			})
			if err == nil {
				release()
			}
			return err
		}
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				if err := ask(); err == nil || err.Error() != "no file" {
					t.Errorf("got %v", err)
				}
			})
		}
		time.Sleep(time.Millisecond)
		ctx, leave := context.WithCancelCause(t.Context())
		group.Go(func() {
			if _, _, err := cache.Get(ctx, "a", func() (int, error) { return 0, errors.New("not asked") }); err == nil || err.Error() != "gone" {
				t.Errorf("one that left: %v", err)
			}
		})
		time.Sleep(time.Millisecond)
		if cache.Failure("a") != nil {
			t.Error("it has not failed yet")
		}
		leave(errors.New("gone"))
		group.Wait()
		if err := cache.Failure("a"); err == nil || tries != 1 {
			t.Errorf("failure %v after %d tries", err, tries)
		}
		time.Sleep(retryAfter + time.Second)
		if err := ask(); err != nil || tries != 2 || cache.Failure("a") != nil {
			t.Errorf("later: %v after %d tries, failure %v", err, tries, cache.Failure("a"))
		}
	})
}
