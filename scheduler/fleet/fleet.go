// Package fleet is the executors that there are and the models that they serve together: it registers what executors tell of
// themselves, and finds the one to which a job goes.
package fleet

import (
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/dispatch"
)

// The routings: how a job finds its executor among those that serve its model.
const (
	RoutePrefix = "prefix" // longest resident prefix against load
	RouteUser   = "user"   // a user's jobs stay together, by rendezvous hash
	RouteLoad   = "load"   // least predicted work
)

// Fleet is all executors, the models that they serve, and the jobs for which none is there. It is not safe for concurrent
// use.
type Fleet struct {
	*dispatch.Shared
	Executors []*dispatch.Executor // in the order of registration
	Pools     map[string]*Pool
	routing   string
}

// New makes a Fleet without executors. What it tells of models is numbered from a number on.
func New(o dispatch.Options, routing string, models uint64) *Fleet {
	return &Fleet{Shared: dispatch.NewShared(o, models), Pools: map[string]*Pool{}, routing: routing}
}

// NewJob makes the job of a Submit that has waited so long already.
func (f *Fleet) NewJob(m *wire.Submit, from *dispatch.Frontend) *dispatch.Job {
	f.pool(m.Model).Asked = true
	return f.Shared.NewJob(m, from)
}

// Place finds a lane for a job that has none and puts it there, or among the orphans of its model, or says why no lane
// takes it. It returns the lane, or one whose model is to be loaded for the frames after this one; nil if there is none.
func (f *Fleet) Place(j *dispatch.Job) (*dispatch.Lane, *engine.Error) {
	p := f.pool(j.Submit.Model)
	if len(p.Lanes) == 0 && !j.IsPromised() {
		j.State, j.Orphaned = dispatch.Orphan, f.Now
		p.Orphans = append(p.Orphans, j)
		return nil, nil
	}
	l, err := f.route(p, j)
	if err != nil {
		return l, err
	}
	f.Enqueue(j, l)
	return l, nil
}

// Enqueue puts a job in a lane.
func (f *Fleet) Enqueue(j *dispatch.Job, l *dispatch.Lane) {
	l.Enqueue(j)
	f.poolOf(l).places.add(j, l)
}

// Forget drops a job from wherever it is, a pass excepted: its caller ends its part in that.
func (f *Fleet) Forget(j *dispatch.Job) {
	if j.Lane == nil {
		p := f.pool(j.Submit.Model)
		p.Orphans = slices.DeleteFunc(p.Orphans, func(o *dispatch.Job) bool { return o == j })
	}
	f.Drop(j)
}

// Wake is when something is to be done next that no message asks for: a job expires, or a frame is to interrupt the
// running pass. It is false if nothing is.
func (f *Fleet) Wake() (at time.Duration, ok bool) {
	_, at, ok = f.Expires()
	for _, e := range f.Executors {
		if latest, some := e.Interrupts(); some && (!ok || latest < at) {
			at, ok = latest, true
		}
	}
	return at, ok
}

// Urged lists the executors on which frames wait that are promised their deadlines.
func (f *Fleet) Urged() (list []*dispatch.Executor) {
	for _, e := range f.Executors {
		if e.HasPromised() {
			list = append(list, e)
		}
	}
	return list
}

// Trim forgets what is not needed any more.
func (f *Fleet) Trim() {
	for name, p := range f.Pools {
		p.places.trim()
		if !p.Known && len(p.Orphans) == 0 {
			delete(f.Pools, name)
		}
	}
	f.Shared.Trim()
}

// Counters are the counters and gauges of the fleet as a whole.
func (f *Fleet) Counters() wire.Stats {
	s := f.Stats
	for _, e := range f.Executors {
		if len(e.Info.Weights) > 0 {
			s.WeightBytes += e.Info.Memory
			s.WeightUsed += e.Device.Used()
		}
	}
	return s
}
