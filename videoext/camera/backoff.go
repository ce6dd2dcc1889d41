package camera

import (
	"math/rand/v2"
	"time"
)

// backoff is how long to wait before something is tried again: each time twice as long, and between half of it and all.
type backoff struct{ wait time.Duration }

const (
	firstWait   = 200 * time.Millisecond
	longestWait = 10 * time.Second
)

func (b *backoff) nextDelay() time.Duration {
	b.wait = min(max(2*b.wait, firstWait), longestWait)
	return b.wait/2 + rand.N(b.wait/2)
}

func (b *backoff) reset() { b.wait = 0 }
