package fleet

import (
	"reflect"
	"slices"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/dispatch"
	"github.com/prefillonly/prefillonly/scheduler/supply"
)

// Add registers an executor by its address, its name and what it says of itself.
func (f *Fleet) Add(id dispatch.PeerID, name string, info *wire.ExecutorInfo) *dispatch.Executor {
	e := f.NewExecutor(id, name, info.Aside)
	e.Salt = hashName(name)
	f.Executors = append(f.Executors, e)
	f.Tell(e, info)
	return e
}

// Tell takes in what an executor says of itself. It returns the jobs of models that are gone, or are others now, for
// which places are to be found; their passes are aborted.
func (f *Fleet) Tell(e *dispatch.Executor, info *wire.ExecutorInfo) (displaced []*dispatch.Job) {
	known := e.Device.Tell(info)
	old := e.Lanes
	e.Lanes = nil
	var gone []*supply.Model
	for _, l := range old {
		if i := slices.IndexFunc(info.Models, func(m wire.ModelInfo) bool { return is(l, &m) }); i < 0 {
			displaced = append(displaced, f.removeLane(l)...)
			gone = append(gone, &l.Model)
		}
	}
	for _, m := range info.Models {
		i := slices.IndexFunc(old, func(l *dispatch.Lane) bool { return is(l, &m) })
		switch {
		case e.Lane(m.Name) != nil: // named twice
		case i >= 0:
			e.Lanes = append(e.Lanes, old[i])
			displaced = append(displaced, f.renew(old[i], m)...)
		default:
			f.addLane(e, m)
		}
	}
	e.Device.Found(known, gone)
	for _, l := range e.Lanes {
		l.Settle()
	}
	e.SetAging()
	f.Models++
	return displaced
}

// is says whether a lane is that of a model as it is told now: the same jobs are done with the same pages.
func is(l *dispatch.Lane, m *wire.ModelInfo) bool {
	return l.Info.Name == m.Name && l.Info.Fingerprint == m.Fingerprint && l.Info.Reason == m.Reason &&
		reflect.DeepEqual(l.Info.Tokens, m.Tokens) && reflect.DeepEqual(uncounted(l.Info.Tensors), uncounted(m.Tensors))
}

// uncounted is limits but for what gradients and larger frames cost, which is measured when there is a lane already.
func uncounted(t *wire.TensorLimits) *wire.TensorLimits {
	if t == nil {
		return nil
	}
	same := *t
	if same.Backward > 0 {
		same.Backward = 1
	}
	if same.Growth > 0 {
		same.Growth = 1
	}
	return &same
}

func (f *Fleet) addLane(e *dispatch.Executor, m wire.ModelInfo) {
	p := f.pool(m.Name)
	l := e.AddLane(m, &p.Group)
	p.Known = true
	p.Lanes = append(p.Lanes, l)
	p.elect()
	if l.Info.Tokens != nil {
		l.Cache.Name.Rank = f.freeRank(l)
		f.Events.Cleared(l.Cache.Name)
	}
}

// renew takes in what is told anew of a model. It returns the jobs of one that can be run no more.
func (f *Fleet) renew(l *dispatch.Lane, m wire.ModelInfo) []*dispatch.Job {
	l.Renew(m)
	if !l.Useless() || !l.Waits() {
		return nil
	}
	f.poolOf(l).elect()
	return Empty(l)
}

// Empty takes the jobs that wait in a lane out of it, in the order of submission.
func Empty(l *dispatch.Lane) []*dispatch.Job {
	jobs := dispatch.InOrder(l.Jobs())
	for _, j := range jobs {
		l.Take(j)
		j.Release()
		j.Lane = nil
		j.Found(0, 0)
	}
	return jobs
}

// displace takes the jobs of a lane that is gone out of it, those that wait and those in its passes.
func displace(l *dispatch.Lane) []*dispatch.Job {
	jobs := l.Jobs()
	for _, j := range jobs {
		l.Take(j)
	}
	for _, p := range l.Passes() {
		jobs = append(jobs, p.Items...)
	}
	for _, j := range jobs {
		j.Lease, j.Lane = nil, nil
		j.Found(0, 0)
	}
	return jobs
}

// removeLane removes a lane from its executor and its pool, aborts its passes and returns its jobs. Its weights stay.
func (f *Fleet) removeLane(l *dispatch.Lane) []*dispatch.Job {
	jobs := displace(l)
	for _, p := range l.Passes() {
		l.Executor.Abort(p)
	}
	f.forgetLane(l)
	l.Executor.Device.Remove(&l.Model)
	return jobs
}

// poolOf is the pool of a lane.
func (f *Fleet) poolOf(l *dispatch.Lane) *Pool { return f.Pools[l.Info.Name] }

// forgetLane takes a lane out of its pool.
func (f *Fleet) forgetLane(l *dispatch.Lane) {
	p := f.poolOf(l)
	p.Lanes = slices.DeleteFunc(p.Lanes, func(o *dispatch.Lane) bool { return o == l })
	p.places.sweep(l)
	p.elect()
	if l.Info.Tokens != nil {
		f.Events.Cleared(l.Cache.Name)
	}
}

// Remove removes an executor that is gone, and returns the jobs that it had, in the order of submission.
func (f *Fleet) Remove(e *dispatch.Executor) (jobs []*dispatch.Job) {
	f.Executors = slices.DeleteFunc(f.Executors, func(o *dispatch.Executor) bool { return o == e })
	for _, l := range e.Lanes {
		jobs = append(jobs, displace(l)...)
		f.forgetLane(l)
	}
	f.Models++
	return dispatch.InOrder(jobs)
}

// Adopt takes the orphans of an executor's models, in the order of submission.
func (f *Fleet) Adopt(e *dispatch.Executor) (jobs []*dispatch.Job) {
	for _, l := range e.Lanes {
		p := f.poolOf(l)
		jobs = append(jobs, p.Orphans...)
		p.Orphans = nil
	}
	return dispatch.InOrder(jobs)
}

// freeRank is the smallest number that no other cache has.
func (f *Fleet) freeRank(of *dispatch.Lane) int {
	taken := map[int]bool{}
	for _, e := range f.Executors {
		for _, l := range e.Lanes {
			if l != of && l.Info.Tokens != nil {
				taken[l.Cache.Name.Rank] = true
			}
		}
	}
	rank := 0
	for taken[rank] {
		rank++
	}
	return rank
}
