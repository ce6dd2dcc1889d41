package fleet

import (
	"reflect"
	"slices"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/cost"
	"github.com/prefillonly/prefillonly/scheduler/supply"
)

// Add registers an executor by what it says of itself.
func (f *Fleet) Add(p *Peer, info *wire.ExecutorInfo) *Executor {
	e := &Executor{Peer: p, Device: supply.New(p.Name.Name, info.Aside), salt: hashName(p.Name.Name)}
	p.Executor = e
	f.Executors = append(f.Executors, e)
	f.Tell(e, info)
	return e
}

// Tell takes in what an executor says of itself. It returns the jobs of models that are gone, or are others now, for
// which places are to be found; their passes are aborted.
func (f *Fleet) Tell(e *Executor, info *wire.ExecutorInfo) (displaced []*Job) {
	known := e.Device.Tell(info)
	old := e.Lanes
	e.Lanes = nil
	var gone []*supply.Model
	for _, l := range old {
		if i := slices.IndexFunc(info.Models, func(m wire.ModelInfo) bool { return m.Name == l.Info.Name && l.is(&m) }); i < 0 {
			displaced = append(displaced, f.removeLane(l)...)
			gone = append(gone, &l.Model)
		}
	}
	for _, m := range info.Models {
		i := slices.IndexFunc(old, func(l *Lane) bool { return l.Info.Name == m.Name && l.is(&m) })
		switch {
		case e.lane(m.Name) != nil: // named twice
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
	e.setAging(f.Fairness)
	f.Models++
	return displaced
}

// is says whether a lane is that of a model as it is told now: the same jobs are done with the same pages.
func (l *Lane) is(m *wire.ModelInfo) bool {
	return l.Info.Fingerprint == m.Fingerprint && l.Info.Reason == m.Reason &&
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

func (f *Fleet) addLane(e *Executor, m wire.ModelInfo) {
	l := f.newLane(e, m)
	e.Lanes = append(e.Lanes, l)
	e.Device.Add(&l.Model)
	l.Pool.Known = true
	l.Pool.Lanes = append(l.Pool.Lanes, l)
	l.Pool.elect()
	if l.Info.Tokens != nil {
		l.Cache.Name.Rank = f.freeRank(l)
		f.Events.Cleared(l.Cache.Name)
	}
}

// renew takes in what is told anew of a model: its weights, what it costs, how it is to be kept. It returns the jobs of
// one that fits no more.
func (f *Fleet) renew(l *Lane, m wire.ModelInfo) (displaced []*Job) {
	if l.Info.Keep != m.Keep && l.Keep(m.Keep) != nil {
		m.Keep = l.Info.Keep
	}
	old := l.Info
	l.Info = m
	if !slices.Equal(old.Weights, m.Weights) || old.Work != m.Work {
		l.Executor.Device.Renew(&l.Model, l.passes())
	}
	if l.Useless() && l.waiting+l.Lowest.Len() > 0 {
		l.Pool.elect()
		return f.Empty(l)
	}
	if old.Cost == m.Cost {
		return nil
	}
	jobs := InOrder(l.jobs())
	for _, j := range jobs {
		f.take(j)
	}
	l.Cost = cost.New(m.Cost)
	l.newQueues(f.Policy)
	for _, j := range jobs {
		f.Enqueue(j, l)
	}
	return nil
}

// passes is how many passes the lane has.
func (l *Lane) passes() (n int) {
	for _, p := range l.Executor.Passes() {
		if p.Lane == l {
			n++
		}
	}
	return n
}

// removeLane removes a lane from its executor and its pool, aborts its passes and returns its jobs. Its weights stay.
func (f *Fleet) removeLane(l *Lane) []*Job {
	e := l.Executor
	jobs := f.displace(l)
	for _, p := range slices.Clone(e.Passes()) {
		if p.Lane == l {
			f.abort(e, p)
		}
	}
	f.forgetLane(l)
	e.Device.Remove(&l.Model)
	return jobs
}

// forgetLane takes a lane out of its pool.
func (f *Fleet) forgetLane(l *Lane) {
	p := l.Pool
	p.Lanes = slices.DeleteFunc(p.Lanes, func(o *Lane) bool { return o == l })
	p.places.sweep(l)
	p.elect()
	if l.Info.Tokens != nil {
		f.Events.Cleared(l.Cache.Name)
	}
}

// Remove removes an executor that is gone, and returns the jobs that it had, in the order of submission.
func (f *Fleet) Remove(e *Executor) (jobs []*Job) {
	f.Executors = slices.DeleteFunc(f.Executors, func(o *Executor) bool { return o == e })
	for _, l := range e.Lanes {
		jobs = append(jobs, f.displace(l)...)
		f.forgetLane(l)
	}
	f.Models++
	return InOrder(jobs)
}

// freeRank is the smallest number that no other cache has.
func (f *Fleet) freeRank(of *Lane) int {
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
