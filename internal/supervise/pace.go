package supervise

import "time"

// The pace of restarts: the first is quick, since a request may be waiting for it; a process that
// dies again and again is tried less often, and given up after maxShortLives. One that lacks what it
// runs on (Child.Slow) is tried for about ten minutes, time to reset a device; since it may get far
// before it misses it, longer lives count as short.
const (
	firstDelay    = 50 * time.Millisecond
	maxDelay      = 2 * time.Second
	shortLife     = 3 * time.Second
	maxSlowDelay  = 30 * time.Second
	shortSlowLife = 5 * time.Minute
	maxShortLives = 30
)

// pace tells how long to wait before a restart.
type pace struct {
	delay time.Duration
	short int // short lives in a row
}

func newPace() *pace { return &pace{delay: firstDelay} }

// nextDelay is the delay after a process that has lived so long, or false when there were too many.
func (p *pace) nextDelay(lived time.Duration, slow bool) (delay time.Duration, ok bool) {
	enough, longest := shortLife, maxDelay
	if slow {
		enough, longest = shortSlowLife, maxSlowDelay
	}
	if p.short++; lived > enough {
		*p = pace{delay: firstDelay}
	}
	delay = min(p.delay, longest)
	p.delay = min(2*p.delay, maxSlowDelay)
	return delay, p.short < maxShortLives
}
