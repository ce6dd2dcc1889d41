package stages

import (
	"slices"
	"time"
)

// mostOrdered is how many of a tenant's stages with a deadline are looked at for those that can be on time, the others being late, and of
// all for those that are lost.
const mostOrdered = 256

// markLate finds the stages that are left out so that as many as may be of the others end in time: by when they are due, and
// where the work of those so far passes that, without the longest of them (J. M. Moore, "An n job, one machine
// sequencing algorithm for minimizing the number of late jobs", 1968, algorithm of T. J. Hodgson), of those of the tenant that has
// the largest share: one that floods makes others' stages not late. Slots count as one machine that is as many times as fast. Only OnTime leaves any out. Short stages wait for each other alone, as no others have the
// express slot; of them those are left out that come too late behind the rest.
func (c *Core) markLate(now time.Time) []bool {
	c.late = slices.Grow(c.late[:0], len(c.byDue))[:len(c.byDue)]
	clear(c.late)
	c.keepNone()
	running, shorts := c.runningWork(now), time.Duration(0)
	work := running
	for i, s := range c.byDue {
		s.place = i
		if s.Apart || c.parameters.Policy != OnTime {
			continue // it takes no slot, or may be late
		}
		if c.late[i] = !c.looksAt(s.tenant); c.late[i] {
			continue
		}
		if c.parameters.Express && s.most < short {
			if c.late[i] = c.endsLate(now, shorts+s.takes, s); !c.late[i] {
				shorts, work = shorts+s.takes, work+s.takes
			}
			continue
		}
		if c.late[i] = c.endsLate(now, running+s.takes, s); c.late[i] {
			continue // though none waited before it
		}
		work += s.takes
		c.keepStage(s)
		for c.endsLate(now, work, s) && !c.late[i] {
			longest := c.leaveOut()
			c.late[longest.place] = true
			work -= longest.takes
		}
	}
	return c.late
}

// endsLate says whether a stage is late of which and before which so much work is done: it begins when no slot is busy with what is
// before it.
func (c *Core) endsLate(now time.Time, work time.Duration, s *stage) bool {
	return now.Add((work-s.takes)/time.Duration(c.parameters.Slots) + s.takes).After(s.due)
}

// runningWork is what those that have a slot still take.
func (c *Core) runningWork(now time.Time) (work time.Duration) {
	for _, s := range c.runs {
		work += max(0, s.takes-now.Sub(s.began))
	}
	return work
}

// refuseLate says whether s, which has just come and waits, is to be told at once that it cannot be in time, and when the like of it may
// be: not even alone, or it is left out as another is that waits and would have its chance before, being of a tenant whose share is no
// larger. The first that is left out waits for that.
func (c *Core) refuseLate(now time.Time, s *stage) (retryAfter time.Duration, refused bool) {
	if !s.First || s.Due.IsZero() || c.parameters.Policy != OnTime {
		return 0, false
	}
	if c.isLost(now, s) {
		s.ratio.doubtBelief()
		return 0, true
	}
	late := c.markLate(now)
	if !c.isLate(s, late) {
		return 0, false
	}
	work := c.runningWork(now) + s.takes
	for i, o := range c.byDue {
		switch {
		case late[i]:
			refused = refused || o != s && o.takes <= s.takes && o.tenant.slotTime() <= s.tenant.slotTime()
		case !o.Apart:
			work += o.takes
		}
	}
	return max(time.Millisecond, work/time.Duration(c.parameters.Slots)-s.due.Sub(now)), refused
}

// dropLate drops the stages that cannot be in time any more; of SLO those that are lost causes.
func (c *Core) dropLate(now time.Time) {
	if c.parameters.Policy != OnTime && c.parameters.Policy != SLO {
		return
	}
	for i := 0; i < min(len(c.byDue), mostOrdered); {
		if s := c.byDue[i]; c.isLost(now, s) {
			s.ratio.doubtBelief()
			c.removeWaiting(s)
			c.removeStage(s)
			c.actions = append(c.actions, Action{ID: s.ID, Verdict: Dropped})
		} else {
			i++
		}
	}
}

func (c *Core) isLost(now time.Time, s *stage) bool {
	if c.parameters.Policy == SLO {
		return now.After(s.due.Add(c.parameters.LostCause))
	}
	return now.Add(c.leastTime(s)).After(s.due)
}

// leastTime is what s is taken to take at the least, as far as its profile is trusted: the mean; of one for whose request nothing was done, and
// beside which others have deadlines, so much that it is hardly ever late: it would have a slot in vain.
func (c *Core) leastTime(s *stage) time.Duration {
	takes := s.takes
	if s.First && (len(c.byDue) > 1 || slices.ContainsFunc(c.runs, func(r *stage) bool { return !r.Due.IsZero() })) {
		takes = s.most
	}
	return time.Duration(float64(takes) * s.ratio.trust)
}

// pushLongest adds s to a heap, the longest first.
func pushLongest(heap []*stage, s *stage) []*stage {
	heap = append(heap, s)
	for i := len(heap) - 1; i > 0 && heap[(i-1)/2].takes < heap[i].takes; i = (i - 1) / 2 {
		heap[i], heap[(i-1)/2] = heap[(i-1)/2], heap[i]
	}
	return heap
}

// popLongest removes the first of the heap.
func popLongest(heap []*stage) []*stage {
	n := len(heap) - 1
	heap[0], heap = heap[n], heap[:n]
	for i := 0; ; {
		child := 2*i + 1
		if child+1 < n && heap[child+1].takes > heap[child].takes {
			child++
		}
		if child >= n || heap[child].takes <= heap[i].takes {
			return heap
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}
