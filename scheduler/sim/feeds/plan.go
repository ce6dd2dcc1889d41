package feeds

import (
	"cmp"
	"maps"
	"math"
	"slices"
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

// Nexus simulates a workload in the order of the GEMEL paper's variant of Nexus, under the plan that serves the least
// served models best: by ascent over architectures, from the best uniform plan, over the very frames that are counted.
func Nexus(w Workload, memory Memory, merged bool, seed uint64) *Outcome {
	var archs []string
	for _, e := range w.models {
		if !slices.Contains(archs, e.arch) {
			archs = append(archs, e.arch)
		}
	}
	var best plan
	var found *Outcome
	try := func(p plan) {
		if o := simulateWorkload(w, seed, newNexus(w, memory, merged, p)); found == nil || hasBetterShares(o.Shares, found.Shares) {
			best, found = p, o
		}
	}
	for _, c := range choices {
		p := plan{map[string]int{}, map[string]bool{}}
		for _, a := range archs {
			p.batch[a], p.wait[a] = c.batch, c.wait
		}
		try(p)
	}
	for before := (*Outcome)(nil); before != found; {
		before = found
		for _, a := range archs {
			for _, c := range choices {
				if c.batch != best.batch[a] || c.wait != best.wait[a] {
					try(best.withChoice(a, c.batch, c.wait))
				}
			}
		}
	}
	return found
}

// hasBetterShares compares shares as the published plans do: the least first, in hundredths.
func hasBetterShares(a, b []float64) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.CompareFunc(a, b, func(x, y float64) int {
		return cmp.Compare(math.Round(100*x), math.Round(100*y))
	}) > 0
}
