package executors

import (
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
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
	*Shared
	Executors []*Executor // in the order of registration
	Pools     map[string]*Pool
	routing   string
}

// NewFleet makes a Fleet without executors. What it tells of models is numbered from a number on.
func NewFleet(o Options, routing string, models uint64) *Fleet {
	return &Fleet{Shared: NewShared(o, models), Pools: map[string]*Pool{}, routing: routing}
}

// NewJob makes the job of a Submit that has waited so long already.
func (f *Fleet) NewJob(m *wire.Submit, from *Frontend) *Job {
	f.poolForModel(m.Model).Asked = true
	return f.Shared.NewJob(m, from)
}

// PlaceJob finds an instance for a job that has none and puts it there, or among the orphans of its model, or says why no instance
// takes it. It returns the instance, or one whose model is to be loaded for the frames after this one; nil if there is none.
func (f *Fleet) PlaceJob(j *Job) (*Instance, *engine.Error) {
	p := f.poolForModel(j.Submit.Model)
	if len(p.Instances) == 0 && !j.IsPromised() {
		j.State, j.Orphaned = Orphan, f.Now
		p.Orphans = append(p.Orphans, j)
		return nil, nil
	}
	inst, err := f.routeJob(p, j)
	if err != nil {
		return inst, err
	}
	f.Enqueue(j, inst)
	return inst, nil
}

// Enqueue puts a job in an instance.
func (f *Fleet) Enqueue(j *Job, inst *Instance) {
	inst.Enqueue(j)
	f.poolOf(inst).places.addPlace(j, inst)
}

// ForgetJob drops a job from wherever it is, a pass excepted: its caller ends its part in that.
func (f *Fleet) ForgetJob(j *Job) {
	if j.Instance == nil {
		p := f.poolForModel(j.Submit.Model)
		p.Orphans = slices.DeleteFunc(p.Orphans, func(o *Job) bool { return o == j })
	}
	f.DropJob(j)
}

// WakeAt is when something is to be done next that no message asks for: a job expires, or a frame is to interrupt the
// running pass. It is false if nothing is.
func (f *Fleet) WakeAt() (at time.Duration, ok bool) {
	_, at, ok = f.FirstExpiry()
	for _, e := range f.Executors {
		if latest, some := e.InterruptAt(); some && (!ok || latest < at) {
			at, ok = latest, true
		}
	}
	return at, ok
}

// ExecutorsWithPromised lists the executors on which frames wait that are promised their deadlines.
func (f *Fleet) ExecutorsWithPromised() (list []*Executor) {
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
		p.places.sweepStale()
		if !p.Known && len(p.Orphans) == 0 {
			delete(f.Pools, name)
		}
	}
	f.Shared.TrimUsers()
}

// Counters are the counters and gauges of the fleet as a whole.
func (f *Fleet) Counters() wire.Stats {
	s := f.Stats
	for _, e := range f.Executors {
		if len(e.Info.Weights) > 0 {
			s.WeightBytes += e.Info.Memory
			s.WeightUsed += e.Loader.Used()
		}
	}
	return s
}

// StealJobs moves the newest request of the most loaded executor of a model to one that has nothing to do, if it would be
// done here before all the work there; a lowest one, if no other waits.
func (f *Fleet) StealJobs(e *Executor) {
	if f.routing == RouteUser {
		return
	}
	for _, g := range f.Waiting {
		if f.stealFrom(f.Pools[g.Model], e, Live) {
			return
		}
	}
	if f.LowestWaiting == 0 || e.HasLowest() {
		return
	}
	for _, p := range f.Sorted() {
		if f.stealFrom(p, e, Lowest) {
			return
		}
	}
}

// stealFrom moves a job of a class of one model.
func (f *Fleet) stealFrom(p *Pool, e *Executor, c Class) bool {
	i := slices.IndexFunc(p.serving, func(inst *Instance) bool { return inst.Executor == e })
	if i < 0 || p.serving[i].Closed(f.Now) != nil {
		return false
	}
	inst := p.serving[i]
	var from *Instance
	var most float64
	for _, other := range p.serving {
		if other == inst || other.QueueOf(c).Len() == 0 || !other.Executor.RunsClass(c) {
			continue
		}
		if load := other.Executor.Load(c); load > most {
			from, most = other, load
		}
	}
	if from == nil {
		return false
	}
	j := from.NewestJob(c)
	if j == nil || f.checkFits(j, inst) != nil || inst.Missing()+inst.Cost.Seconds(j.Size(0).Alone()) >= most {
		return false
	}
	from.TakeJob(j)
	f.Enqueue(j, inst)
	return true
}
