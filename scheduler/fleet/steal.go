package fleet

import (
	"slices"

	"github.com/prefillonly/prefillonly/scheduler/dispatch"
)

// Steal moves the newest request of the most loaded executor of a model to one that has nothing to do, if it would be
// done here before all the work there; a lowest one, if no other waits.
func (f *Fleet) Steal(e *dispatch.Executor) {
	if f.routing == RouteUser {
		return
	}
	for _, g := range f.Waiting {
		if f.stealFrom(f.Pools[g.Model], e, dispatch.Live) {
			return
		}
	}
	if f.LowestWaiting == 0 || e.HasLowest() {
		return
	}
	for _, p := range f.Sorted() {
		if f.stealFrom(p, e, dispatch.Lowest) {
			return
		}
	}
}

// stealFrom moves a job of a class of one model.
func (f *Fleet) stealFrom(p *Pool, e *dispatch.Executor, c dispatch.Class) bool {
	i := slices.IndexFunc(p.serving, func(l *dispatch.Lane) bool { return l.Executor == e })
	if i < 0 || p.serving[i].Closed(f.Now) != nil {
		return false
	}
	l := p.serving[i]
	var from *dispatch.Lane
	var most float64
	for _, other := range p.serving {
		if other == l || other.QueueOf(c).Len() == 0 || !other.Executor.Runs(c) {
			continue
		}
		if load := other.Executor.Load(c); load > most {
			from, most = other, load
		}
	}
	if from == nil {
		return false
	}
	j := from.Newest(c)
	if j == nil || f.unfit(j, l) != nil || l.Missing()+l.Cost.Seconds(j.Size(0).Alone()) >= most {
		return false
	}
	from.Take(j)
	f.Enqueue(j, l)
	return true
}
