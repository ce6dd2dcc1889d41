// Package stages orders the pieces of work that processors do beside the devices' passes (CPU stages): which of those
// that wait begins when a slot is free. It is pure: Step takes the time and what happened, and says what begins.
package stages

import (
	"cmp"
	"slices"
	"time"
)

// Stages by how long they take. A stage is not interrupted unless it Yields, so what takes long may not hold every slot, and what is
// short may hold one slot more than there are: it is done before its neighbours would have noticed.
const (
	short = 20 * time.Millisecond
	long  = 500 * time.Millisecond
)

// urgency is how many times what it takes a long stage with a deadline must have left when another long one ends. With less it may
// have the last slot: where all stages are long, machines would stand idle while deadlines pass.
const urgency = 4

// share is the part of slot time, at least, of stages that are not on time or have no deadline: one in share. It is half, as
// a deadline is what its client says: whoever sets one for all that it sends must not hold up those who set none.
const share = 2

// Ask wants a slot for a stage.
type Ask struct {
	ID     uint64
	Client string // whose slots end when it is Gone or silent for long; empty: they end with Done alone
	Tenant string // whose share of the slots it takes, such as a key's
	Kind   string
	Takes  time.Duration // about, by what the asker knows of its size
	Came   time.Time     // when its request came, by which it ages; zero: now
	Due    time.Time     // by when its request must have ended; zero: whenever
	Rest   time.Duration // what its request needs after this stage: of devices and of processors
	First  bool          // nothing was done for its request: refused at once if it cannot be in time
	Yields bool          // it can be interrupted often, so that it holds up no others however long it takes
	Spare  bool          // now or not at all: dropped unless a slot is free that nobody waits for
	Apart  bool          // it goes beside the slots, one such at a time: what takes seconds and cannot be interrupted

	Outside bool // a program beside the server does it; those have a part of the slots, which tenants have by turns
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

// Gone ends all stages of a client.
type Gone struct{ Client string }

// Tick is that time has passed.
type Tick struct{}

// Verdict is what becomes of a stage.
type Verdict uint8

// Verdicts.
const (
	Granted Verdict = iota + 1 // it begins
	Dropped                    // it could not be in time any more, or nothing was to spare
	Refused                    // it could not be in time from the first, or programs beside the server have no slots
	Expired                    // its client has had the slot for so long that another has it now
)

// Action is a verdict on a stage.
type Action struct {
	ID         uint64
	Verdict    Verdict
	RetryAfter time.Duration // of what is Refused: when the like may be in time; 0: never
}

// Core gives out slots. The zero value is of no use; make one with New.
type Core struct {
	parameters Parameters
	ratios     profile
	stages     map[uint64]*stage // all, those that wait and those that have a slot
	byDue      []*stage          // that wait and have a deadline, by it
	byAge      []*stage          // that wait, by when each would have ended had it begun when its request came: the short first, and none waits for ever
	runs       []*stage          // that have a slot
	longs      int               // of runs
	outsiders  int               // of runs
	shorts     int               // of byAge
	aparts     int               // of byAge
	apart      *stage            // that runs
	credit     time.Duration     // slot time that those without a deadline may have before those with one
	tenants    map[string]*tenant
	steps      uint64
	quiet      uint64        // the last of steps after which nobody waited
	turn       time.Duration // slot time that the tenant of the last stage that began had had
	actions    []Action
	order      uint64
	late       []bool    // of byDue, in pick
	round      uint64    // of markLate
	keepers    []*tenant // of those of byDue that are not late, in pick
}

type stage struct {
	Ask
	order  uint64    // among those of the same instant
	due    time.Time // by when this stage must have ended
	age    time.Time // by which it stands in byAge
	ratio  *ratio    // of its kind and size
	tenant *tenant
	takes  time.Duration
	most   time.Duration // that it takes, nine times of ten
	began  time.Time     // zero: it waits
	place  int           // in byDue, in pick
}

func (s *stage) isLong() bool { return s.most > long && !s.Yields }

// New makes a Core.
func New(p Parameters) *Core {
	if p.Outside == Half {
		p.Outside = max(1, p.Slots/2)
	}
	return &Core{parameters: p, ratios: profile{}, stages: map[uint64]*stage{}, tenants: map[string]*tenant{}}
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
func (c *Core) Slots() int { return c.parameters.Slots }

// Outside is how many of them programs beside the server may have.
func (c *Core) Outside() int { return c.parameters.Outside }

// Step takes one event (Ask, Yield, Done, Withdraw, Gone, Tick) and returns what becomes of which stages, until the next Step.
// What it does not know is ignored.
func (c *Core) Step(now time.Time, event any) []Action {
	c.actions = c.actions[:0]
	c.steps++
	switch e := event.(type) {
	case Ask:
		if c.stages[e.ID] == nil {
			c.askForSlot(now, e)
		}
	case Yield:
		if s := c.stages[e.ID]; s != nil && !s.began.IsZero() {
			c.endRun(now, s)
			s.First = false
			s.takes, s.most = s.ratio.predictTime(e.Left)
			c.enqueueStage(s)
		}
	case Done:
		if s := c.stages[e.ID]; s != nil && !s.began.IsZero() {
			c.endRun(now, s)
			s.ratio.recordTime(s.Takes, e.Took)
			c.removeStage(s)
		}
	case Withdraw:
		c.withdrawStage(now, c.stages[e.ID])
	case Gone:
		c.endClient(now, e.Client)
	}
	c.expireLeases(now)
	c.dropLate(now)
	c.fillSlots(now)
	c.forgetIdle()
	return c.actions
}

func (c *Core) askForSlot(now time.Time, e Ask) {
	if e.Came.IsZero() {
		e.Came = now
	}
	c.order++
	s := &stage{Ask: e, order: c.order, due: e.Due.Add(-e.Rest), ratio: c.ratios.of(e.Kind, e.Takes), tenant: c.tenantOf(e.Tenant)}
	s.takes, s.most = s.ratio.predictTime(e.Takes)
	if e.Outside && c.parameters.Outside == 0 {
		c.actions = append(c.actions, Action{ID: e.ID, Verdict: Refused})
		return
	}
	if e.Spare && (len(c.byAge) > 0 || !c.fits(s)) {
		c.actions = append(c.actions, Action{ID: e.ID, Verdict: Dropped})
		return
	}
	c.stages[e.ID] = s
	s.tenant.open++
	c.enqueueStage(s)
	if retryAfter, refused := c.refuseLate(now, s); refused {
		c.withdrawStage(now, s)
		c.actions = append(c.actions, Action{ID: e.ID, Verdict: Refused, RetryAfter: retryAfter})
	}
}

func (c *Core) withdrawStage(now time.Time, s *stage) {
	switch {
	case s == nil:
		return
	case s.began.IsZero():
		c.removeWaiting(s)
	default:
		c.endRun(now, s)
	}
	c.removeStage(s)
}

// removeStage forgets a stage that neither waits nor has a slot.
func (c *Core) removeStage(s *stage) {
	delete(c.stages, s.ID)
	s.tenant.open--
	s.tenant.left = c.steps
}

// enqueueStage has s wait for a slot.
func (c *Core) enqueueStage(s *stage) {
	s.age = s.Came
	if c.parameters.Policy != FIFO {
		s.age = s.age.Add(s.takes)
	}
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
	if s.Outside {
		s.tenant.outside += n
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
	c.chargeTenant(s)
	s.began = now
	s.ratio.running++
	if s.Apart {
		c.apart = s
	} else {
		c.runs = append(c.runs, s)
		c.countRunning(s, 1)
	}
	c.actions = append(c.actions, Action{ID: s.ID, Verdict: Granted})
}

func (c *Core) endRun(now time.Time, s *stage) {
	s.settleUse(now)
	s.began = time.Time{}
	s.ratio.running--
	if s.Apart {
		c.apart = nil
		return
	}
	i := slices.Index(c.runs, s)
	c.runs = slices.Delete(c.runs, i, i+1)
	c.countRunning(s, -1)
}

func (c *Core) countRunning(s *stage, n int) {
	if s.isLong() {
		c.longs += n
	}
	if s.Outside {
		c.outsiders += n
	}
}

// fillSlots begins stages while there are slots for them.
func (c *Core) fillSlots(now time.Time) {
	for len(c.runs) < c.parameters.Slots || c.hasExpress() && c.shorts > 0 || c.apart == nil && c.aparts > 0 {
		s, hurried := c.pickStage(now)
		if s == nil {
			return
		}
		c.accountShare(s, hurried)
		c.beginRun(now, s)
	}
}

// hasExpress says that a short stage may begin though there is no slot.
func (c *Core) hasExpress() bool { return c.parameters.Express && len(c.runs) == c.parameters.Slots }

// accountShare keeps the share of those without a deadline, while some of them wait.
func (c *Core) accountShare(s *stage, hurried bool) {
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
	case s.Outside && (c.outsiders >= c.parameters.Outside || !c.hasTurn(s)):
		return false
	case len(c.runs) >= c.parameters.Slots:
		return s.most < short && c.hasExpress()
	}
	return c.parameters.Policy != OnTime || !s.isLong() || c.longs < max(1, c.parameters.Slots/2) || c.isUrgent(s)
}

// isUrgent says that a long stage might be late if it waited for another long one to end.
func (c *Core) isUrgent(s *stage) bool {
	latest := s.due.Add(-urgency * s.takes)
	return !s.Due.IsZero() && !slices.ContainsFunc(c.runs, func(r *stage) bool {
		return r.isLong() && !r.began.Add(r.takes).After(latest)
	})
}

// pickStage is the stage that begins next, and whether it does for its deadline; nil: none may.
func (c *Core) pickStage(now time.Time) (s *stage, hurried bool) {
	if c.parameters.Policy == FIFO {
		return find(c.byAge, c.fits), false
	}
	late := c.markLate(now)
	first := find(c.byDue, func(s *stage) bool { return c.fits(s) && !c.isLate(s, late) })
	other := c.pickOther(late)
	if first == nil || other != nil && c.credit >= other.takes {
		return other, false
	}
	return first, true
}

// pickOther is the stage that begins next of those that are late or have no deadline: of the tenant that had least slot time, the old and
// short first.
func (c *Core) pickOther(late []bool) (other *stage) {
	for _, s := range c.byAge {
		if !s.Due.IsZero() && !c.isLate(s, late) || !c.fits(s) {
			continue
		}
		if other == nil || s.tenant.used < other.tenant.used {
			other = s
		}
	}
	return other
}

// isLate says whether a stage that waits is left out by what markLate has just found.
func (c *Core) isLate(s *stage, late []bool) bool {
	return s.place >= len(late) || c.byDue[s.place] != s || late[s.place]
}

func compareDue(a, b *stage) int { return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.order, b.order)) }

func compareAge(a, b *stage) int { return cmp.Or(a.age.Compare(b.age), cmp.Compare(a.order, b.order)) }

// find is the first of the list that is right.
func find(list []*stage, right func(*stage) bool) *stage {
	if i := slices.IndexFunc(list, right); i >= 0 {
		return list[i]
	}
	return nil
}

func insert(list []*stage, s *stage, compare func(a, b *stage) int) []*stage {
	i, _ := slices.BinarySearchFunc(list, s, compare)
	return slices.Insert(list, i, s)
}

func remove(list []*stage, s *stage, compare func(a, b *stage) int) []*stage {
	i, _ := slices.BinarySearchFunc(list, s, compare)
	return slices.Delete(list, i, i+1)
}
