package fleet

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/kvcache"
)

// CheckIntegrity holds the fleet to its invariants, and returns the first that it finds broken.
func (f *Fleet) CheckIntegrity(jobs []*Job) error {
	for _, e := range f.Executors {
		for _, l := range e.Lanes {
			if err := f.checkLane(l); err != nil {
				return fmt.Errorf("lane %s of %s: %w", l.Info.Name, e.Peer.Name.Name, err)
			}
		}
		if err := f.checkExecutor(e); err != nil {
			return fmt.Errorf("executor %s: %w", e.Peer.Name.Name, err)
		}
	}
	for _, swept := range []bool{false, true} { // a sweep leaves all that must be there
		for _, p := range f.Pools {
			if swept {
				p.places.sweep(nil)
			}
		}
		for _, j := range jobs {
			if err := j.checkPlaces(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *Fleet) checkLane(l *Lane) error {
	var leases []*kvcache.Lease
	waiting := l.jobs()
	for _, j := range waiting {
		if j.Lane != l || j.State != Waiting {
			return fmt.Errorf("job %v waits, and is %+v", j.Submit.ID, j)
		}
		if j.Lease != nil {
			leases = append(leases, j.Lease)
		}
	}
	for _, p := range l.Executor.Passes() {
		for _, j := range p.Items {
			if p.Lane == l {
				leases = append(leases, j.Lease)
			}
		}
	}
	switch {
	case len(waiting) != l.waiting+l.Lowest.Len():
		return fmt.Errorf("%d jobs wait, counted %d and %d lowest ones", len(waiting), l.waiting, l.Lowest.Len())
	case slices.Contains(l.Executor.low.busy, l) != (l.Lowest.Len() > 0):
		return fmt.Errorf("%d lowest jobs wait, it is taken to be busy: %v", l.Lowest.Len(), l.Lowest.Len() == 0)
	case slices.Contains(l.Executor.busy, l) != (l.waiting > 0):
		return fmt.Errorf("%d jobs wait, it is taken to be busy: %v", l.waiting, l.waiting == 0)
	case !slices.IsSortedFunc(l.frames.jobs, byDeadline):
		return fmt.Errorf("its frames are in disorder")
	}
	for c := range classes {
		if err := l.queue(c).CheckIntegrity(f.Seconds()); err != nil {
			return err
		}
	}
	return l.Cache.Index.CheckIntegrity(leases)
}

func (f *Fleet) checkExecutor(e *Executor) error {
	isReady := func(l *Lane) bool { return l.Ready() }
	ready := slices.ContainsFunc(e.busy, isReady)
	switch {
	case e.Nested != nil && e.Running == nil:
		return fmt.Errorf("pass %d is nested in none", e.Nested.ID)
	case e.Running == nil && len(e.Parked) > 0 && !e.Device.Loading():
		return fmt.Errorf("it is idle while %d passes are paused", len(e.Parked))
	case len(e.Lowest)+len(e.Preparing) == 0 && e.Running == nil && slices.ContainsFunc(e.low.busy, isReady) && f.leaves(e) && e.Info.Memory == 0:
		return fmt.Errorf("it is idle while lowest jobs wait for models that are there")
	case e.Running == nil && ready && !e.Device.Loading() && e.Info.Memory == 0: // else there may be no room for it
		return fmt.Errorf("it is idle while jobs wait for models that are there")
	}
	return e.Device.CheckIntegrity(e.work())
}

// checkPlaces holds that all lanes are among the places of a job's prefix in which it may share that.
func (j *Job) checkPlaces() error {
	for _, l := range j.Pool.Lanes {
		if len(j.Chain) == 0 || j.ChainOf != l.limits.BlockTokens || j.Continues() || slices.Contains(j.Pool.places.by[j.Chain[0]], l) {
			continue
		}
		if shared := j.Len() - int(l.expected(j).Units); shared > 0 {
			return fmt.Errorf("job %v shares %d tokens on %s, which is not among the places", j.Submit.ID, shared, l.Executor.Peer.Name.Name)
		}
	}
	return nil
}
