package fleet

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/scheduler/dispatch"
)

// CheckIntegrity holds the fleet to its invariants, and returns the first that it finds broken.
func (f *Fleet) CheckIntegrity(jobs []*dispatch.Job) error {
	for _, e := range f.Executors {
		if err := e.CheckIntegrity(); err != nil {
			return fmt.Errorf("executor %s: %w", e.Name, err)
		}
	}
	for _, swept := range []bool{false, true} { // a sweep leaves all that must be there
		for _, p := range f.Pools {
			if swept {
				p.places.sweep(nil)
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

// checkPlaces holds that all lanes are among the places of a job's prefix in which it may share that.
func (f *Fleet) checkPlaces(j *dispatch.Job) error {
	p := f.pool(j.Submit.Model)
	for _, l := range p.Lanes {
		if len(j.Chain) == 0 || j.ChainOf != l.Limits.BlockTokens || j.Continues() || slices.Contains(p.places.of(j), l) {
			continue
		}
		if shared := j.Len() - int(l.Expected(j).Units); shared > 0 {
			return fmt.Errorf("job %v shares %d tokens on %s, which is not among the places", j.Submit.ID, shared, l.Executor.Name)
		}
	}
	return nil
}
