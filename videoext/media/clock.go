package media

import "time"

// Clock makes times that only go on of those that a source says, which may go back, stand still or leap: files are joined, cameras set their clocks or
// begin anew. There it goes on by as much as has passed meanwhile. The zero value begins with the first time that is said.
type Clock struct {
	Step time.Duration // from a frame to the next, where nothing else is known
	Leap time.Duration // by which times may grow from one to the next beyond what has passed; 0: DefaultLeap

	last  time.Duration // that it gave
	begun bool          // it gave one
	said  time.Duration // by the source, of the last frame whose time it said
	heard bool          // it said one
	fresh bool          // it begins anew with the next frame
	shift time.Duration // from what is said to what is given
	when  time.Time     // of the last frame

	followed struct { // of the last frame at which the source was followed
		at   time.Duration
		when time.Time
	}
}

// DefaultLeap is more than lies between two frames of a slow source.
const DefaultLeap = time.Hour

// farthest is what times are cut to: sums and differences of two do not overflow.
const farthest = time.Duration(1) << 61

// Resume goes on behind a time, at which another Clock stood.
func (c *Clock) Resume(last time.Duration, now time.Time) {
	c.last, c.begun, c.when = min(last, farthest), true, now
	c.markFollowed()
}

// Reopen says that the source begins anew, with times that need not follow those before.
func (c *Clock) Reopen() { c.heard, c.fresh = false, c.begun }

// Time is when a frame is whose source says a time, and that comes now: never before the one before it. Jumped says that what the source says does not
// follow what it said before. Now is zero where the source does not keep pace with real time, as a file does.
func (c *Clock) Time(said time.Duration, now time.Time) (at time.Duration, jumped bool) {
	said = min(max(said, -farthest), farthest)
	passed := max(now.Sub(c.when), 0)
	leap, grown := c.Leap, said-c.said
	if leap == 0 {
		leap = DefaultLeap
	}
	switch {
	case c.heard && (grown <= 0 || grown-passed > leap):
		c.shift, jumped = c.timeAfter(now)-said, true
	case c.heard:
	case c.fresh:
		c.shift = c.timeAfter(now) - said
	case !c.begun || said > c.last:
		c.shift = 0
	default:
		c.shift = c.last + max(c.Step, time.Millisecond) - said
	}
	at = said + c.shift
	if c.begun {
		at = max(at, c.last+time.Millisecond) // where frames whose time was not said ran ahead
	}
	c.last, c.begun, c.said, c.heard, c.fresh, c.when = at, true, said, true, false, now
	if !jumped {
		c.markFollowed()
	}
	return at, jumped
}

// Untimed is when a frame is whose source does not say it.
func (c *Clock) Untimed(now time.Time) time.Duration {
	guessed := c.begun && !c.fresh
	switch {
	case guessed:
		c.last += max(c.Step, time.Millisecond)
	case c.fresh:
		c.last = c.timeAfter(now)
	}
	if c.begun, c.fresh, c.when = true, false, now; !guessed {
		c.markFollowed()
	}
	return c.last
}

func (c *Clock) markFollowed() { c.followed.at, c.followed.when = c.last, c.when }

// timeAfter is a time behind the last one, by what has passed since the source was followed.
func (c *Clock) timeAfter(now time.Time) time.Duration {
	step := time.Millisecond
	if !now.After(c.when) {
		step = max(c.Step, step)
	}
	return max(c.last+step, c.followed.at+now.Sub(c.followed.when))
}
