package fleet

import (
	"reflect"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/promise"
	"github.com/prefillonly/prefillonly/scheduler/queue"
	"github.com/prefillonly/prefillonly/scheduler/residency"
	"github.com/prefillonly/prefillonly/scheduler/supply"
)

// PeerName is what stays of a peer over its restarts.
type PeerName struct {
	Role wire.Role
	Name string
}

// Peer is a registered frontend or executor.
type Peer struct {
	ID       PeerID
	Name     PeerName
	Epoch    uint64 // its own
	Welcomed uint64 // the scheduler's, as its Welcomes tell: higher than that of any peer lost before
	Heard    time.Duration
	Hellos   int
	Frontend *Frontend // one of the two is set
	Executor *Executor
	State    *wire.ExecutorState // what an executor last said of itself; may be nil
}

// Settled says that a peer has answered a Welcome. An executor runs nothing before; until then the
// Hello we know it by may even be an old one of a process that is dead.
func (p *Peer) Settled() bool { return p.Hellos > 1 }

// Frontend is a peer that submits jobs.
type Frontend struct {
	Peer  *Peer
	Jobs  map[engine.JobID]*Job
	Knows uint64 // the Fleet.Models that it was told last
}

// Executor is a peer that runs passes, with what is known of it.
type Executor struct {
	Peer *Peer
	*supply.Device
	Lanes     []*Lane // in the order of Info.Models
	Running   *Pass   // nil while idle
	Nested    *Pass   // in the running one
	Parked    []*Pass // paused, oldest first
	Preparing []*Pass // that could not begin, until what they need is made beside the device
	Lowest    []*Pass // of engine.Lowest, in the order in which they are run
	Full      bool    // a pass did not fit beside the paused ones, and none has ended since; see PutBack

	line             // of all but the lowest jobs
	low      line    // of these
	noRoom   bool    // a lowest pass was dropped for want of room, and no pass has ended since
	salt     uint64  // of its name, for rendezvous hashing
	aging    float64 // seconds of work that a second of waiting outweighs
	feeds    int     // frames that wait and are promised nothing
	promised []*Job  // frames that wait and are promised their deadlines, the earliest first
	ledger   promise.Ledger
}

// lane is the lane of a model; nil if the executor has none.
func (e *Executor) lane(model string) *Lane {
	i := slices.IndexFunc(e.Lanes, func(l *Lane) bool { return l.Info.Name == model })
	if i < 0 {
		return nil
	}
	return e.Lanes[i]
}

// load predicts the seconds of work that an executor has to do before a job of a class that comes now.
func (e *Executor) load(now time.Duration, c class) float64 {
	sum := 0.0
	for _, l := range e.low.busy {
		if c == lowest {
			sum += l.Cost.Seconds(l.Lowest.Predicted)
		}
	}
	for _, l := range e.busy {
		sum += l.Cost.Seconds(l.Queue.Predicted) + l.frames.seconds(l)
	}
	for _, j := range e.promised {
		sum += j.Lane.Cost.Seconds(j.Left())
	}
	for _, p := range e.Passes() {
		if p.class <= c {
			sum += e.left(p, now)
		}
	}
	return sum
}

// Busy lists the lanes in which jobs wait.
func (e *Executor) Busy() []*Lane {
	list := slices.Clone(e.busy)
	for _, l := range e.low.busy {
		if !slices.Contains(list, l) {
			list = append(list, l)
		}
	}
	return list
}

// Idle says that nothing waits for the executor, nor stands still there, but for lowest jobs.
func (e *Executor) Idle() bool { return len(e.busy) == 0 && len(e.Parked) == 0 }

// Differs says whether what an executor tells of itself is news. Which weights are there is known.
func (e *Executor) Differs(info *wire.ExecutorInfo) bool {
	a, b := e.Info, *info
	a.Weights, b.Weights = nil, nil
	same := func(v, w wire.Weight) bool { return v.Bytes == w.Bytes }
	return !reflect.DeepEqual(a, b) || !slices.EqualFunc(e.Info.Weights, info.Weights, same)
}

// scale is by what jobs of a lane are compared with those of others, when so many seconds are left to load it that
// each of them pays its part of.
func (e *Executor) scale(l *Lane, c class, now, load float64) queue.Scale {
	waiting := l.waiting
	if c == lowest {
		waiting = l.Lowest.Len()
	}
	return queue.Scale{Now: now, Rate: l.Cost.Rate(), Load: load / float64(max(waiting, 1)), Aging: e.aging}
}

// setAging finds how jobs of different lanes age: for all alike, or one lane that is overloaded would starve the
// others. Of the lanes' own rates it is the greatest, but no more than is good for an order that loads models.
func (e *Executor) setAging(fairness float64) {
	e.aging = 0
	for _, l := range e.Lanes {
		if l.Info.Tokens != nil {
			e.aging = max(e.aging, min(fairness*l.Cost.Rate(), residency.Aging))
		}
	}
	if e.aging == 0 {
		for _, l := range e.Lanes {
			e.aging = max(e.aging, min(fairness*l.Cost.Rate(), residency.Aging))
		}
	}
}

// waits notes that so many jobs more, or less, of a class wait in a lane.
func (f *Fleet) waits(l *Lane, c class, jobs int) {
	e, p := l.Executor, l.Pool
	if c == lowest {
		f.lowestWaiting += jobs
		if n := l.Lowest.Len(); jobs > 0 && n == jobs {
			e.low.busy = append(e.low.busy, l)
		} else if n == 0 {
			e.low.busy = slices.DeleteFunc(e.low.busy, func(o *Lane) bool { return o == l })
			l.Idle(f.Now)
		}
		return
	}
	before, waited := l.waiting, p.waiting
	l.waiting += jobs
	p.waiting += jobs
	switch {
	case before == 0:
		e.busy = append(e.busy, l)
	case l.waiting == 0:
		e.busy = slices.Delete(e.busy, slices.Index(e.busy, l), slices.Index(e.busy, l)+1)
		l.Idle(f.Now)
	}
	switch {
	case waited == 0:
		f.waiting = append(f.waiting, p)
	case p.waiting == 0:
		f.waiting = slices.DeleteFunc(f.waiting, func(q *Pool) bool { return q == p })
	}
}
