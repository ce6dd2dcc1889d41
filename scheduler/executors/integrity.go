package executors

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/kvcache"
)

// CheckIntegrity holds the executor to its invariants, and returns the first that it finds broken.
func (e *Executor) CheckIntegrity() error {
	for _, inst := range e.Instances {
		if err := inst.checkIntegrity(); err != nil {
			return fmt.Errorf("instance %s: %w", inst.Info.Name, err)
		}
	}
	isReady := func(inst *Instance) bool { return inst.Ready() }
	live, low := e.lines[Live].busy, e.lines[Lowest].busy
	switch {
	case e.Nested != nil && e.Running == nil:
		return fmt.Errorf("pass %d is nested in none", e.Nested.ID)
	case e.Running == nil && len(e.Parked) > 0 && !e.Loader.Loading():
		return fmt.Errorf("it is idle while %d passes are paused", len(e.Parked))
	case len(e.Lowest)+len(e.Preparing) == 0 && e.Running == nil && slices.ContainsFunc(low, isReady) && e.leavesToLowest() && e.Info.Memory == 0:
		return fmt.Errorf("it is idle while lowest jobs wait for models that are there")
	case e.Running == nil && slices.ContainsFunc(live, isReady) && !e.Loader.Loading() && e.Info.Memory == 0: // else there may be no room for it
		return fmt.Errorf("it is idle while jobs wait for models that are there")
	}
	return e.Loader.CheckIntegrity(e.workBytes())
}

func (inst *Instance) checkIntegrity() error {
	var leases []*kvcache.Lease
	waiting := inst.Jobs()
	for _, j := range waiting {
		if j.Instance != inst || j.State != Waiting {
			return fmt.Errorf("job %v waits, and is %+v", j.Submit.ID, j)
		}
		if j.sharesScores() && !j.IsFrame() && !inst.shared.Scores.IsAwaiting(&j.Scores) {
			return fmt.Errorf("job %v does not await scores beyond the first %d tokens, or there are some", j.Submit.ID, j.Known)
		}
		if j.Lease != nil {
			leases = append(leases, j.Lease)
		}
	}
	for _, p := range inst.Passes() {
		for _, j := range p.Items {
			leases = append(leases, j.Lease)
		}
	}
	lines := &inst.Executor.lines
	switch {
	case len(waiting) != inst.waiting+inst.Lowest.Len():
		return fmt.Errorf("%d jobs wait, counted %d and %d lowest ones", len(waiting), inst.waiting, inst.Lowest.Len())
	case slices.Contains(lines[Lowest].busy, inst) != (inst.Lowest.Len() > 0):
		return fmt.Errorf("%d lowest jobs wait, it is taken to be busy: %v", inst.Lowest.Len(), inst.Lowest.Len() == 0)
	case slices.Contains(lines[Live].busy, inst) != (inst.waiting > 0):
		return fmt.Errorf("%d jobs wait, it is taken to be busy: %v", inst.waiting, inst.waiting == 0)
	case !framesInOrder(inst.frames.AllFrames()):
		return fmt.Errorf("its frames are in disorder")
	}
	for c := range Classes {
		if err := inst.QueueOf(c).CheckIntegrity(inst.shared.Seconds()); err != nil {
			return err
		}
	}
	return inst.Cache.Index.CheckIntegrity(leases)
}

// CheckIntegrity holds the fleet to its invariants, and returns the first that it finds broken.
func (f *Fleet) CheckIntegrity(jobs []*Job) error {
	for _, e := range f.Executors {
		if err := e.CheckIntegrity(); err != nil {
			return fmt.Errorf("executor %s: %w", e.Name, err)
		}
	}
	for _, swept := range []bool{false, true} { // a sweep leaves all that must be there
		for _, p := range f.Pools {
			if swept {
				p.places.forgetInstance(nil)
			}
		}
		for _, j := range jobs {
			if err := f.checkPlaces(j); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkPlaces holds that all instances are among the places of a job's prefix in which it may share that.
func (f *Fleet) checkPlaces(j *Job) error {
	p := f.poolForModel(j.Submit.Model)
	for _, inst := range p.Instances {
		if len(j.Chain) == 0 || j.ChainOf != inst.Limits.BlockTokens || j.Continues() || slices.Contains(p.places.instancesFor(j), inst) {
			continue
		}
		if shared := j.Len() - int(inst.ExpectedWork(j).Units); shared > 0 {
			return fmt.Errorf("job %v shares %d tokens on %s, which is not among the places", j.Submit.ID, shared, inst.Executor.Name)
		}
	}
	return nil
}
