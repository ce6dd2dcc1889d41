package supervise

import (
	"testing"
	"time"
)

// lives counts the restarts until a child that always lives so long is given up, and adds up the
// delays before them.
func lives(lived time.Duration, slow bool, limit int) (restarts int, waited, longest time.Duration) {
	p := newPace()
	for restarts < limit {
		delay, ok := p.nextDelay(lived, slow)
		if !ok {
			break
		}
		restarts++
		waited += delay
		longest = max(longest, delay)
	}
	return restarts, waited, longest
}

func TestPace(t *testing.T) {
	for _, c := range []struct {
		name            string
		lived           time.Duration
		slow            bool
		restarts        int
		atLeast, atMost time.Duration // waited in all
		longest         time.Duration
	}{
		{"crash at once", time.Millisecond, false, maxShortLives - 1, 45 * time.Second, time.Minute, maxDelay},
		{"crash now and then", time.Minute, false, 1000, 1000 * firstDelay, 1000 * firstDelay, firstDelay},
		{"no device", time.Second, true, maxShortLives - 1, 9 * time.Minute, 11 * time.Minute, maxSlowDelay},
		{"device lost after loading", time.Minute, true, maxShortLives - 1, 9 * time.Minute, 11 * time.Minute, maxSlowDelay},
		{"device lost once an hour", time.Hour, true, 1000, 1000 * firstDelay, 1000 * firstDelay, firstDelay},
	} {
		restarts, waited, longest := lives(c.lived, c.slow, 1000)
		if restarts != c.restarts || waited < c.atLeast || waited > c.atMost || longest != c.longest {
			t.Errorf("%s: %d restarts in %v, at most %v apart; want %d in %v to %v, %v apart", c.name, restarts, waited, longest, c.restarts, c.atLeast, c.atMost, c.longest)
		}
	}
}
