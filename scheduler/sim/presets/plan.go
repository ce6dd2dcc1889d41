package presets

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/scheduler/sim"
)

// plan is what the Nexus variant fixes beforehand for each architecture: the batch, and whether a load that
// finds no room while such a model runs waits for the end of its pass or displaces another.
type plan struct {
	batch map[string]int
	wait  map[string]bool
}

// withChoice returns the plan with another choice for an architecture.
func (p plan) withChoice(arch string, batch int, wait bool) plan {
	q := plan{maps.Clone(p.batch), maps.Clone(p.wait)}
	q.batch[arch], q.wait[arch] = batch, wait
	return q
}

// choices are what a plan has for each architecture: the published variant's batches.
var choices = []struct {
	batch int
	wait  bool
}{{1, false}, {1, true}, {2, false}, {2, true}, {4, false}, {4, true}}

// RunNexus simulates the setting in the order of the GEMEL paper's variant of Nexus, under the plan that serves the least
// served models best: by ascent over architectures, from the best uniform plan, over the very frames that are counted.
func (f Feeds) RunNexus() (*FeedsOutcome, error) {
	var archs []string
	for _, e := range f.Workload.models {
		if !slices.Contains(archs, e.Architecture) {
			archs = append(archs, e.Architecture)
		}
	}
	a, tried := f.newArrivals(), map[string]bool{}
	var best plan
	var found *FeedsOutcome
	try := func(p plan) error {
		key := fmt.Sprint(p)
		if tried[key] {
			return nil
		}
		tried[key] = true
		o, err := a.simulate(sim.NewDesk(a.newNexus(p)))
		if err == nil && (found == nil || hasBetterShares(o.Shares, found.Shares)) {
			best, found = p, o
		}
		return err
	}
	for _, c := range choices {
		p := plan{map[string]int{}, map[string]bool{}}
		for _, arch := range archs {
			p.batch[arch], p.wait[arch] = c.batch, c.wait
		}
		if err := try(p); err != nil {
			return nil, err
		}
	}
	for before := (*FeedsOutcome)(nil); before != found; {
		before = found
		for _, arch := range archs {
			for _, c := range choices {
				if err := try(best.withChoice(arch, c.batch, c.wait)); err != nil {
					return nil, err
				}
			}
		}
	}
	return found, nil
}

// hasBetterShares compares shares as the published plans do: the least first, in hundredths.
func hasBetterShares(a, b []float64) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.CompareFunc(a, b, func(x, y float64) int {
		return cmp.Compare(math.Round(100*x), math.Round(100*y))
	}) > 0
}
