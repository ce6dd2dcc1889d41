package registry

import (
	"context"
	"errors"
	"sync"
	"time"
)

// retryAfter is how long a failure to open is the answer to all who ask.
const retryAfter = 10 * time.Second

// cache keeps what is slow to open and large: it is opened once for all who ask for it at a time, and of what nobody uses only the
// most recently used stays open. Its methods are safe for concurrent use.
type cache[K comparable, V any] struct {
	// set once
	limit int     // values that may be open while some of them are unused
	close func(V) // frees one that nobody uses

	mu      sync.Mutex
	entries map[K]*cacheEntry[K, V] // guarded by mu
	open    int                     // guarded by mu: values that are
	uses    uint64                  // guarded by mu: that have ended
}

type cacheEntry[K comparable, V any] struct {
	key     K
	ready   chan struct{} // closed when value or err is set
	release func()

	// guarded by cache.mu from when ready is closed
	value  V
	err    error
	failed time.Time
	users  int
	used   uint64 // cache.uses when the last ended
}

// newCache makes a cache of at most limit open values, or as many as are used at a time.
func newCache[K comparable, V any](limit int, closeValue func(V)) *cache[K, V] {
	return &cache[K, V]{limit: limit, close: closeValue, entries: map[K]*cacheEntry[K, V]{}}
}

// Get returns the value of key, which the caller uses until it calls release, once. If it is not open, one of those
// who ask opens it and the others wait. Its errors are those of open, which are remembered for some seconds, and why
// ctx has ended.
func (c *cache[K, V]) Get(ctx context.Context, key K, open func() (V, error)) (value V, release func(), err error) {
	c.mu.Lock()
	e := c.entries[key]
	if e != nil && e.err != nil && time.Since(e.failed) > retryAfter {
		e = nil
	}
	if e == nil {
		e = &cacheEntry[K, V]{key: key, ready: make(chan struct{})}
		e.release = func() { c.release(e) }
		c.entries[key] = e
		e.users++
		c.mu.Unlock()
		c.fill(e, open)
	} else {
		e.users++
		c.mu.Unlock()
	}
	select {
	case <-e.ready:
	case <-ctx.Done():
		c.release(e)
		return value, nil, context.Cause(ctx)
	}
	if e.err != nil {
		c.release(e)
		return value, nil, e.err
	}
	return e.value, e.release, nil
}

// fill opens the value of a new entry.
func (c *cache[K, V]) fill(e *cacheEntry[K, V], open func() (V, error)) {
	var value V
	err := errPanicked
	defer func() { c.settle(e, value, err) }()
	value, err = open()
}

// errPanicked is what those get who ask beside one whose open panics.
var errPanicked = errors.New("opening it has met a defect")

func (c *cache[K, V]) settle(e *cacheEntry[K, V], value V, err error) {
	c.mu.Lock()
	if e.value, e.err = value, err; err != nil {
		e.failed = time.Now()
	} else {
		c.open++
	}
	close(e.ready)
	closing := c.surplus()
	c.mu.Unlock()
	c.closeAll(closing)
}

func (c *cache[K, V]) release(e *cacheEntry[K, V]) {
	c.mu.Lock()
	c.uses++
	e.users, e.used = e.users-1, c.uses
	closing := c.surplus()
	c.mu.Unlock()
	c.closeAll(closing)
}

// surplus forgets the longest unused of more values than the limit; the caller holds mu, and closes them when it
// does not.
func (c *cache[K, V]) surplus() []V {
	var closing []V
	for c.open > c.limit {
		var longest *cacheEntry[K, V]
		for _, e := range c.entries {
			if e.users == 0 && e.err == nil && (longest == nil || e.used < longest.used) {
				longest = e
			}
		}
		if longest == nil {
			break
		}
		delete(c.entries, longest.key)
		c.open--
		closing = append(closing, longest.value)
	}
	return closing
}

func (c *cache[K, V]) closeAll(values []V) {
	for _, v := range values {
		c.close(v)
	}
}

// Failure is why key could not be opened when that was last tried; nil if it could.
func (c *cache[K, V]) Failure(key K) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key]; e != nil {
		select {
		case <-e.ready:
			return e.err
		default:
		}
	}
	return nil
}

// Room says whether one more value can be opened without closing another.
func (c *cache[K, V]) Room() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open < c.limit
}
