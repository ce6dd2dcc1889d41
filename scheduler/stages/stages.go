// Package stages orders the pieces of work that processors do beside the devices' passes (CPU stages): which of those
// that wait begins when a slot is free. It is pure: Step takes the time and what happened, and says what begins.
package stages

import (
	"cmp"
	"slices"
	"time"
)

// Stages by how long they take. A stage is not interrupted, so what takes long may not hold every slot, and what is
// short may hold one slot more than there are: it is done before its neighbours would have noticed.
const (
	short = 20 * time.Millisecond
	long  = 250 * time.Millisecond
)

// share is the part of slot time, at least, of stages that are not on time or have no deadline: one in share. It is half, as
// a deadline is what its client says: whoever sets one for all that it sends must not hold up those who set none.
const share = 2

// mostOrdered is how many of the stages with a deadline are looked at for those that can be on time.
const mostOrdered = 256

// Ask wants a slot for a stage.
type Ask struct {
	ID    uint64
	Kind  string
	Takes time.Duration // about, by what the asker knows of its size
	Due   time.Time     // by when it must have ended; zero: whenever
	Spare bool          // now or not at all: dropped unless a slot is free that nobody waits for
	Apart bool          // it goes beside the slots, one such at a time: what takes seconds and cannot be interrupted
}

// Yield is a point where a stage that has a slot may be interrupted: it asks for the rest of it, and goes on when granted.
type Yield struct {
	ID   uint64
	Left time.Duration // about, of the work
}

// Done ends a stage that has a slot.
type Done struct {
	ID   uint64
	Took time.Duration // with its slot
}

// Withdraw ends a stage, whether it waits or has a slot. What it took teaches nothing.
type Withdraw struct{ ID uint64 }

// Action is what becomes of a stage that waited.
type Action struct {
	ID    uint64
	Grant bool // it begins; otherwise it is dropped: its time has passed, or nothing was to spare
}

// Core gives out slots. The zero value is of no use; make one with New.
type Core struct {
	slots   int
	ratios  profile
	stages  map[uint64]*stage // all, those that wait and those that have a slot
	byDue   []*stage          // that wait and have a deadline, by it
	byAge   []*stage          // that wait, by when each would have ended had it begun when it asked: the short first, and none waits for ever
	runs    []*stage          // that have a slot
	longs   int               // of runs
	shorts  int               // of byAge
	aparts  int               // of byAge
	apart   *stage            // that runs
	credit  time.Duration     // slot time that those without a deadline may have before those with one
	actions []Action
	order   uint64
	late    []bool   // of byDue, in pick
	longest []*stage // a heap of those of byDue that are not late, in pick
}

type stage struct {
	Ask
	asked time.Time
	order uint64 // among those of the same instant
	takes time.Duration
	most  time.Duration // that it takes, nine times of ten
	began time.Time     // zero: it waits
	place int           // in byDue, in pick
}

// New makes a Core of so many slots.
func New(slots int) *Core {
	return &Core{slots: slots, ratios: profile{}, stages: map[uint64]*stage{}}
}

// Waiting is how many stages wait.
func (c *Core) Waiting() int { return len(c.byAge) }

// Running is how many stages have a slot.
func (c *Core) Running() int {
	if c.apart != nil {
		return len(c.runs) + 1
	}
	return len(c.runs)
}

// Slots is how many there are.
func (c *Core) Slots() int { return c.slots }

// Step takes one event (Ask, Yield, Done, Withdraw) and returns what begins or is dropped, until the next Step.
// What it does not know is ignored.
func (c *Core) Step(now time.Time, event any) []Action {
	c.actions = c.actions[:0]
	switch e := event.(type) {
	case Ask:
		if c.stages[e.ID] == nil {
			c.ask(now, e)
		}
	case Yield:
		if s := c.stages[e.ID]; s != nil && !s.began.IsZero() {
			c.endRun(s)
			s.takes, s.most = c.ratios.predict(s.Kind, e.Left) // its age stays
			c.enqueue(s)
		}
	case Done:
		if s := c.stages[e.ID]; s != nil && !s.began.IsZero() {
			c.endRun(s)
			c.ratios.note(s.Kind, s.Takes, e.Took)
			delete(c.stages, s.ID)
		}
	case Withdraw:
		c.withdraw(c.stages[e.ID])
	}
	c.dropLate(now)
	c.fillSlots(now)
	return c.actions
}

func (c *Core) ask(now time.Time, e Ask) {
	c.order++
	s := &stage{Ask: e, asked: now, order: c.order}
	s.takes, s.most = c.ratios.predict(e.Kind, e.Takes)
	if e.Spare && (len(c.byAge) > 0 || !c.fits(s)) {
		c.actions = append(c.actions, Action{ID: e.ID})
		return
	}
	c.stages[e.ID] = s
	c.enqueue(s)
}

func (c *Core) withdraw(s *stage) {
	switch {
	case s == nil:
		return
	case s.began.IsZero():
		c.removeWaiting(s)
	default:
		c.endRun(s)
	}
	delete(c.stages, s.ID)
}

// enqueue has s wait for a slot.
func (c *Core) enqueue(s *stage) {
	if !s.Due.IsZero() {
		c.byDue = insert(c.byDue, s, compareDue)
	}
	c.byAge = insert(c.byAge, s, compareAge)
	c.countWaiting(s, 1)
}

func (c *Core) countWaiting(s *stage, n int) {
	switch {
	case s.Apart:
		c.aparts += n
	case s.most < short:
		c.shorts += n
	}
}

func (c *Core) removeWaiting(s *stage) {
	if !s.Due.IsZero() {
		c.byDue = remove(c.byDue, s, compareDue)
	}
	c.byAge = remove(c.byAge, s, compareAge)
	c.countWaiting(s, -1)
}

func (c *Core) beginRun(now time.Time, s *stage) {
	c.removeWaiting(s)
	s.began = now
	switch {
	case s.Apart:
		c.apart = s
	case s.most > long:
		c.longs++
		fallthrough
	default:
		c.runs = append(c.runs, s)
	}
	c.actions = append(c.actions, Action{ID: s.ID, Grant: true})
}

func (c *Core) endRun(s *stage) {
	s.began = time.Time{}
	if s.Apart {
		c.apart = nil
		return
	}
	i := slices.Index(c.runs, s)
	c.runs = slices.Delete(c.runs, i, i+1)
	if s.most > long {
		c.longs--
	}
}

// dropLate drops the stages whose time has passed.
func (c *Core) dropLate(now time.Time) {
	for len(c.byDue) > 0 && !now.Before(c.byDue[0].Due) {
		s := c.byDue[0]
		c.removeWaiting(s)
		delete(c.stages, s.ID)
		c.actions = append(c.actions, Action{ID: s.ID})
	}
}

// fillSlots begins stages while there are slots for them.
func (c *Core) fillSlots(now time.Time) {
	for len(c.runs) < c.slots || len(c.runs) == c.slots && c.shorts > 0 || c.apart == nil && c.aparts > 0 {
		s, hurried := c.pick(now)
		if s == nil {
			return
		}
		c.account(s, hurried)
		c.beginRun(now, s)
	}
}

// account keeps the share of those without a deadline, while some of them wait.
func (c *Core) account(s *stage, hurried bool) {
	switch {
	case !hurried:
		c.credit = max(0, c.credit-s.takes)
	case len(c.byAge) > len(c.byDue):
		c.credit += s.takes / (share - 1)
	}
}

// fits says whether a stage may begin beside those that run.
func (c *Core) fits(s *stage) bool {
	switch {
	case s.Apart:
		return c.apart == nil
	case s.most < short:
		return len(c.runs) <= c.slots
	case s.most > long:
		return len(c.runs) < c.slots && c.longs < max(1, c.slots/2)
	}
	return len(c.runs) < c.slots
}

// pick is the stage that begins next, and whether it does for its deadline; nil: none may.
func (c *Core) pick(now time.Time) (s *stage, hurried bool) {
	late := c.markLate(now)
	var first, other *stage
	for i, s := range c.byDue[:len(late)] {
		if !late[i] && c.fits(s) {
			first = s
			break
		}
	}
	for _, s := range c.byAge {
		if c.fits(s) && (s.Due.IsZero() || c.isLate(s, late)) {
			other = s
			break
		}
	}
	if first == nil || other != nil && c.credit >= other.takes {
		return other, false
	}
	return first, true
}

func (c *Core) isLate(s *stage, late []bool) bool {
	i, _ := slices.BinarySearchFunc(c.byDue, s, compareDue)
	return i >= len(late) || late[i]
}

// markLate finds the stages that are left out so that as many as may be of the others end in time: by deadline, and
// where the work of those so far passes a deadline, without the longest of them (J. M. Moore, "An n job, one machine
// sequencing algorithm for minimizing the number of late jobs", 1968, algorithm of T. J. Hodgson). Slots count as one
// machine that is as many times as fast.
func (c *Core) markLate(now time.Time) []bool {
	n := min(len(c.byDue), mostOrdered)
	c.late, c.longest = slices.Grow(c.late[:0], n)[:n], c.longest[:0]
	clear(c.late)
	var work time.Duration
	for _, s := range c.runs {
		work += max(0, s.takes-now.Sub(s.began))
	}
	for i, s := range c.byDue[:n] {
		if s.Apart {
			continue // it takes no slot
		}
		s.place = i
		work += s.takes
		c.longest = pushLongest(c.longest, s)
		for len(c.longest) > 0 && now.Add(work/time.Duration(c.slots)).After(s.Due) {
			longest := c.longest[0]
			c.longest = popLongest(c.longest)
			c.late[longest.place] = true
			work -= longest.takes
		}
	}
	return c.late
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

func compareDue(a, b *stage) int { return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.order, b.order)) }

func compareAge(a, b *stage) int {
	return cmp.Or(a.asked.Add(a.takes).Compare(b.asked.Add(b.takes)), cmp.Compare(a.order, b.order))
}

func insert(list []*stage, s *stage, compare func(a, b *stage) int) []*stage {
	i, _ := slices.BinarySearchFunc(list, s, compare)
	return slices.Insert(list, i, s)
}

func remove(list []*stage, s *stage, compare func(a, b *stage) int) []*stage {
	i, _ := slices.BinarySearchFunc(list, s, compare)
	return slices.Delete(list, i, i+1)
}
