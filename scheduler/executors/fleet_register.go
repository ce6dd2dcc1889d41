package executors

import (
	"reflect"
	"slices"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/residency"
)

// AddExecutor registers an executor by its address, its name and what it says of itself.
func (f *Fleet) AddExecutor(id PeerID, name string, info *wire.ExecutorInfo) *Executor {
	e := f.NewExecutor(id, name, info.Aside)
	e.Salt = hashName(name)
	f.Executors = append(f.Executors, e)
	f.UpdateExecutor(e, info)
	return e
}

// UpdateExecutor takes in what an executor says of itself. It returns the jobs of models that are gone, or are others now, for
// which places are to be found; their passes are aborted.
func (f *Fleet) UpdateExecutor(e *Executor, info *wire.ExecutorInfo) (displaced []*Job) {
	known := e.Loader.Tell(info)
	old := e.Instances
	e.Instances, e.byName = nil, map[string]*Instance{}
	var gone []*residency.Model
	for _, inst := range old {
		if i := slices.IndexFunc(info.Models, func(m wire.ModelInfo) bool { return isSameModel(inst, &m) }); i < 0 {
			displaced = append(displaced, f.removeInstance(inst)...)
			gone = append(gone, &inst.Model)
		}
	}
	for _, m := range info.Models {
		i := slices.IndexFunc(old, func(inst *Instance) bool { return isSameModel(inst, &m) })
		switch {
		case e.Instance(m.Name) != nil: // named twice
		case i >= 0:
			e.listInstance(old[i])
			displaced = append(displaced, f.renewInstance(old[i], m)...)
		default:
			f.addInstance(e, m)
		}
	}
	e.Loader.Found(known, gone)
	for _, inst := range e.Instances {
		inst.Settle()
	}
	e.SetAging()
	f.Models++
	return displaced
}

// isSameModel says whether an instance is that of a model as it is told now: the same jobs are done with the same pages. A
// network has none, and may be exchanged for another one that does the same jobs.
func isSameModel(inst *Instance, m *wire.ModelInfo) bool {
	exchanged := m.Tensors != nil && m.Tokens == nil && m.Reason == ""
	return inst.Info.Name == m.Name && (inst.Info.Fingerprint == m.Fingerprint || exchanged) && inst.Info.Reason == m.Reason &&
		reflect.DeepEqual(inst.Info.Tokens, m.Tokens) && reflect.DeepEqual(withoutMeasuredCosts(inst.Info.Tensors), withoutMeasuredCosts(m.Tensors))
}

// withoutMeasuredCosts is limits but for what gradients and larger frames cost, which is measured when there is an instance already.
func withoutMeasuredCosts(t *wire.TensorLimits) *wire.TensorLimits {
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

func (f *Fleet) addInstance(e *Executor, m wire.ModelInfo) {
	p := f.poolForModel(m.Name)
	inst := e.AddInstance(m, &p.Group)
	p.Known = true
	p.Instances = append(p.Instances, inst)
	p.electInfo()
	if inst.Info.Tokens != nil {
		inst.Cache.Name.Rank = f.freeRank(inst)
		f.Events.Cleared(inst.Cache.Name)
	}
}

// renewInstance takes in what is told anew of a model. It returns the jobs of one that can be run no more.
func (f *Fleet) renewInstance(inst *Instance, m wire.ModelInfo) []*Job {
	exchanged := inst.Info.Fingerprint != m.Fingerprint
	inst.Renew(m)
	if exchanged {
		f.poolOf(inst).electInfo()
	}
	if !inst.Useless() || !inst.Waits() {
		return nil
	}
	f.poolOf(inst).electInfo()
	return EmptyInstance(inst)
}

// EmptyInstance takes the jobs that wait in an instance out of it, in the order of submission.
func EmptyInstance(inst *Instance) []*Job {
	jobs := SortBySubmission(inst.Jobs())
	for _, j := range jobs {
		inst.TakeJob(j)
		j.ReleasePages()
		j.Instance = nil
		j.Found(0, 0)
	}
	return jobs
}

// displaceJobs takes the jobs of an instance that is gone out of it, those that wait and those in its passes.
func displaceJobs(inst *Instance) []*Job {
	jobs := inst.Jobs()
	for _, j := range jobs {
		inst.TakeJob(j)
	}
	for _, p := range inst.Passes() {
		jobs = append(jobs, p.Items...)
	}
	for _, j := range jobs {
		j.Lease, j.Instance = nil, nil
		j.Found(0, 0)
	}
	return jobs
}

// removeInstance removes an instance from its executor and its pool, aborts its passes and returns its jobs. Its weights stay.
func (f *Fleet) removeInstance(inst *Instance) []*Job {
	jobs := displaceJobs(inst)
	for _, p := range inst.Passes() {
		inst.Executor.AbortPass(p)
	}
	f.forgetInstance(inst)
	inst.Executor.Loader.Remove(&inst.Model)
	return jobs
}

// poolOf is the pool of an instance.
func (f *Fleet) poolOf(inst *Instance) *Pool { return f.Pools[inst.Info.Name] }

// forgetInstance takes an instance out of its pool.
func (f *Fleet) forgetInstance(inst *Instance) {
	p := f.poolOf(inst)
	p.Instances = slices.DeleteFunc(p.Instances, func(o *Instance) bool { return o == inst })
	p.places.forgetInstance(inst)
	p.electInfo()
	if inst.Info.Tokens != nil {
		f.Events.Cleared(inst.Cache.Name)
	}
}

// RemoveExecutor removes an executor that is gone, and returns the jobs that it had, in the order of submission.
func (f *Fleet) RemoveExecutor(e *Executor) (jobs []*Job) {
	f.Executors = slices.DeleteFunc(f.Executors, func(o *Executor) bool { return o == e })
	for _, inst := range e.Instances {
		jobs = append(jobs, displaceJobs(inst)...)
		f.forgetInstance(inst)
	}
	f.Models++
	return SortBySubmission(jobs)
}

// AdoptOrphans takes the orphans of an executor's models, in the order of submission.
func (f *Fleet) AdoptOrphans(e *Executor) (jobs []*Job) {
	for _, inst := range e.Instances {
		p := f.poolOf(inst)
		jobs = append(jobs, p.Orphans...)
		p.Orphans = nil
	}
	return SortBySubmission(jobs)
}

// freeRank is the smallest number that no other cache has.
func (f *Fleet) freeRank(of *Instance) int {
	taken := map[int]bool{}
	for _, e := range f.Executors {
		for _, inst := range e.Instances {
			if inst != of && inst.Info.Tokens != nil {
				taken[inst.Cache.Name.Rank] = true
			}
		}
	}
	rank := 0
	for taken[rank] {
		rank++
	}
	return rank
}
