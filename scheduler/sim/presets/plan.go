package presets

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/scheduler/sim"
)

// plan is what the Nexus variant fixes beforehand for each architecture.
type plan map[string]choice

// choice is the batch of an architecture, and whether a load that finds no room while such a model runs waits for the end of its
// pass or displaces another.
type choice struct {
	batch int
	wait  bool
}

// What a plan can choose: the published variant's batches, and on a device where loads know no bounds but those of memory,
// whether to wait.
var (
	batchChoices = []choice{{1, false}, {2, false}, {4, false}}
	allChoices   = []choice{{1, false}, {1, true}, {2, false}, {2, true}, {4, false}, {4, true}}
)

// uniformPlan chooses the same for all architectures of a workload.
func (w Workload) uniformPlan(c choice) plan {
	p := plan{}
	for _, e := range w.models {
		p[e.Architecture] = c
	}
	return p
}

// bestPlan is what the plan brings that serves the least served models of a workload best: by ascent over architectures, from the best
// uniform plan. Try says what shares of their frames models have under a plan; none for one that is impossible.
func bestPlan[O any](w Workload, choices []choice, try func(plan) (o O, shares []float64, err error)) (found O, err error) {
	var best plan
	var most []float64
	tried := map[string]bool{}
	improve := func(p plan) (better bool, err error) {
		if key := fmt.Sprint(p); !tried[key] {
			tried[key] = true
			o, shares, err := try(p)
			if err == nil && shares != nil && (best == nil || hasBetterShares(shares, most)) {
				best, found, most, better = p, o, shares, true
			}
			return better, err
		}
		return false, nil
	}
	for _, c := range choices {
		if _, err := improve(w.uniformPlan(c)); err != nil {
			return found, err
		}
	}
	for again := best != nil; again; {
		again = false
		for _, arch := range slices.Sorted(maps.Keys(best)) {
			for _, c := range choices {
				p := maps.Clone(best)
				p[arch] = c
				better, err := improve(p)
				if err != nil {
					return found, err
				}
				again = again || better
			}
		}
	}
	return found, nil
}

// RunNexus simulates the setting in the order of the GEMEL paper's variant of Nexus, under the best plan over the very frames that are
// counted. It evicts models, as published; see RunNexusByTensor.
func (f Feeds) RunNexus() (*FeedsOutcome, error) {
	f.ByModel = true
	return f.runNexus()
}

// RunNexusByTensor is RunNexus where only so much of a model makes room as is needed.
func (f Feeds) RunNexusByTensor() (*FeedsOutcome, error) {
	f.ByModel = false
	return f.runNexus()
}

func (f Feeds) runNexus() (*FeedsOutcome, error) {
	a := f.newArrivals()
	return bestPlan(f.Workload, allChoices, func(p plan) (*FeedsOutcome, []float64, error) {
		o, err := a.simulate(sim.NewDesk(a.newNexus(p)))
		if err != nil {
			return nil, nil, err
		}
		return o, o.Shares, nil
	})
}

// hasBetterShares compares shares as the published plans do: the least first, in hundredths.
func hasBetterShares(a, b []float64) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.CompareFunc(a, b, func(x, y float64) int {
		return cmp.Compare(math.Round(100*x), math.Round(100*y))
	}) > 0
}
