package stages

import (
	"slices"
	"time"
)

// mostOrdered is how many of the stages with a deadline are looked at for those that can be on time.
const mostOrdered = 256

// markLate finds the stages that are left out so that as many as may be of the others end in time: by when they are due, and
// where the work of those so far passes that, without the longest of them (J. M. Moore, "An n job, one machine
// sequencing algorithm for minimizing the number of late jobs", 1968, algorithm of T. J. Hodgson). Slots count as one
// machine that is as many times as fast. Only OnTime leaves any out. Short stages wait for each other alone, as no others have the
// express slot; of them those are left out that come too late behind the rest.
func (c *Core) markLate(now time.Time) []bool {
	n := len(c.byDue)
	if c.parameters.Policy == OnTime {
		n = min(n, mostOrdered)
	}
	c.late, c.longest = slices.Grow(c.late[:0], n)[:n], c.longest[:0]
	clear(c.late)
	work, shorts := c.runningWork(now), time.Duration(0)
	for i, s := range c.byDue[:n] {
		s.place = i
		if s.Apart || c.parameters.Policy != OnTime {
			continue // it takes no slot, or may be late
		}
		if c.parameters.Express && s.most < short {
			if c.late[i] = c.endsLate(now, shorts+s.takes, s); !c.late[i] {
				shorts, work = shorts+s.takes, work+s.takes
			}
			continue
		}
		work += s.takes
		c.longest = pushLongest(c.longest, s)
		for len(c.longest) > 0 && c.endsLate(now, work, s) {
			longest := c.longest[0]
			c.longest = popLongest(c.longest)
			c.late[longest.place] = true
			work -= longest.takes
		}
	}
	return c.late
}

// endsLate says whether a stage is late if it ends when so much work has been done.
func (c *Core) endsLate(now time.Time, work time.Duration, s *stage) bool {
	return now.Add(work / time.Duration(c.parameters.Slots)).After(s.due)
}

// runningWork is what those that have a slot still take.
func (c *Core) runningWork(now time.Time) (work time.Duration) {
	for _, s := range c.runs {
		work += max(0, s.takes-now.Sub(s.began))
	}
	return work
}

// refuse says whether s, which has just come and waits, is to be told at once that it cannot be in time, and when the like of it may
// be: not even alone, or it is left out as another is that waits and would have its chance before. The first that is left out waits for that.
func (c *Core) refuse(now time.Time, s *stage) (retryAfter time.Duration, refused bool) {
	if !s.First || s.Due.IsZero() || c.parameters.Policy != OnTime {
		return 0, false
	}
	if c.isLost(now, s) {
		s.ratio.doubt()
		return 0, true
	}
	late := c.markLate(now)
	if !c.isLate(s, late) {
		return 0, false
	}
	work := c.runningWork(now) + s.takes
	for i, o := range c.byDue[:len(late)] {
		switch {
		case late[i]:
			refused = refused || o != s && o.takes <= s.takes
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
			s.ratio.doubt()
			c.removeWaiting(s)
			delete(c.stages, s.ID)
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
	return !now.Add(s.least()).Before(s.due)
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
