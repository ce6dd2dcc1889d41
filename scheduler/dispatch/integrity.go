package dispatch

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/frames"
)

// CheckIntegrity holds the executor to its invariants, and returns the first that it finds broken.
func (e *Executor) CheckIntegrity() error {
	for _, l := range e.Lanes {
		if err := l.checkIntegrity(); err != nil {
			return fmt.Errorf("lane %s: %w", l.Info.Name, err)
		}
	}
	isReady := func(l *Lane) bool { return l.Ready() }
	live, low := e.lines[Live].busy, e.lines[Lowest].busy
	switch {
	case e.Nested != nil && e.Running == nil:
		return fmt.Errorf("pass %d is nested in none", e.Nested.ID)
	case e.Running == nil && len(e.Parked) > 0 && !e.Device.Loading():
		return fmt.Errorf("it is idle while %d passes are paused", len(e.Parked))
	case len(e.Lowest)+len(e.Preparing) == 0 && e.Running == nil && slices.ContainsFunc(low, isReady) && e.leaves() && e.Info.Memory == 0:
		return fmt.Errorf("it is idle while lowest jobs wait for models that are there")
	case e.Running == nil && slices.ContainsFunc(live, isReady) && !e.Device.Loading() && e.Info.Memory == 0: // else there may be no room for it
		return fmt.Errorf("it is idle while jobs wait for models that are there")
	}
	return e.Device.CheckIntegrity(e.work())
}

func (l *Lane) checkIntegrity() error {
	var leases []*kvcache.Lease
	waiting := l.Jobs()
	for _, j := range waiting {
		if j.Lane != l || j.State != Waiting {
			return fmt.Errorf("job %v waits, and is %+v", j.Submit.ID, j)
		}
		if j.sharesScores() && !j.IsFrame() && !l.shared.Scores.Awaits(&j.Scores) {
			return fmt.Errorf("job %v does not await scores beyond the first %d tokens, or there are some", j.Submit.ID, j.Known)
		}
		if j.Lease != nil {
			leases = append(leases, j.Lease)
		}
	}
	for _, p := range l.Passes() {
		for _, j := range p.Items {
			leases = append(leases, j.Lease)
		}
	}
	lines := &l.Executor.lines
	switch {
	case len(waiting) != l.waiting+l.Lowest.Len():
		return fmt.Errorf("%d jobs wait, counted %d and %d lowest ones", len(waiting), l.waiting, l.Lowest.Len())
	case slices.Contains(lines[Lowest].busy, l) != (l.Lowest.Len() > 0):
		return fmt.Errorf("%d lowest jobs wait, it is taken to be busy: %v", l.Lowest.Len(), l.Lowest.Len() == 0)
	case slices.Contains(lines[Live].busy, l) != (l.waiting > 0):
		return fmt.Errorf("%d jobs wait, it is taken to be busy: %v", l.waiting, l.waiting == 0)
	case !frames.InOrder(l.frames.All()):
		return fmt.Errorf("its frames are in disorder")
	}
	for c := range Classes {
		if err := l.QueueOf(c).CheckIntegrity(l.shared.Seconds()); err != nil {
			return err
		}
	}
	return l.Cache.Index.CheckIntegrity(leases)
}
