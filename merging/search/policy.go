package search

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/merging"
)

// Policy says what is tried, and in which order.
type Policy string

// The policies.
const (
	// Adopt has one model after the other, those that can save most first, take the weights of donors, which stay as they are: of the groups that are the
	// bulk of its bytes at once, and then of the rest; of half of them, those that save most, where that fails. A single group that fails so is trained
	// jointly by the two.
	Adopt Policy = "adopt"
	// Joint is the paper's: one group at a time, trained by all members together, and halved like that.
	Joint Policy = "joint"
	// Stem shares beginnings alone, the donor's, and finds by bisection how many layers of them (Mainstream, ATC 2018).
	Stem Policy = "stem"
	// Mean has all groups have the mean of their weights at once, and half of them, those that save most, where that fails.
	Mean Policy = "mean"
)

// Policies lists them.
func Policies() []string { return []string{string(Adopt), string(Joint), string(Stem), string(Mean)} }

// Check refuses a policy that is none.
func (p Policy) Check() error {
	if !slices.Contains(Policies(), string(p)) {
		return fmt.Errorf("unknown policy %q: want one of %s", p, strings.Join(Policies(), ", "))
	}
	return nil
}

// A policy proposes ties, all that there are to be, and is told what became of them. nil: it is at its end.
type policy interface {
	propose() []merging.Tie
	judged(success bool)
}

func newPolicy(plan *merging.Plan, o Options) policy {
	switch o.Policy {
	case Stem:
		return newStems(plan, o.Cost)
	case Joint:
		return newGroups(&groups{plan: plan, cost: o.Cost, waiting: [][]merging.Group{slices.Clone(plan.Groups)}, joint: true, only: true})
	case Mean:
		return newGroups(&groups{plan: plan, waiting: [][]merging.Group{slices.Clone(plan.Groups)}, mean: true})
	}
	return newGroups(&groups{plan: plan, cost: o.Cost, waiting: byAdopter(plan, o.Cost)})
}

// byAdopter is each model's groups with their donors alone, the model's first that can save most.
func byAdopter(plan *merging.Plan, cost []float64) [][]merging.Group {
	by, saved := make([][]merging.Group, len(plan.Models)), make([]int64, len(plan.Models))
	for _, g := range plan.Groups {
		donor := dearest(g.Members, cost)
		for _, m := range g.Members {
			if m.Model == donor {
				continue
			}
			pair := g
			pair.Members = slices.DeleteFunc(slices.Clone(g.Members), func(o merging.Member) bool { return o.Model != donor && o != m })
			by[m.Model], saved[m.Model] = append(by[m.Model], pair), saved[m.Model]+g.Bytes
		}
	}
	order := make([]int, len(by))
	for i := range order {
		order[i] = i
		slices.SortStableFunc(by[i], func(a, b merging.Group) int { return cmp.Compare(b.Bytes, a.Bytes) })
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(saved[b], saved[a]) })
	var sorted [][]merging.Group
	for _, i := range order {
		if len(by[i]) > 0 {
			sorted = append(sorted, by[i])
		}
	}
	return sorted
}

// groups tries so many groups at a time, beside those that are kept.
type groups struct {
	plan    *merging.Plan
	cost    []float64
	kept    []merging.Tie
	waiting [][]merging.Group // lists, one after the other; in each those that save most first
	size    int               // that are tried at once of the first list
	joint   bool              // the first is trained jointly
	only    bool              // all are
	mean    bool              // none is, and the mean takes the donor's place
}

func newGroups(g *groups) *groups {
	g.sizeFirst()
	return g
}

// bulk is the share of an adopter's bytes that it adopts first. What is left are many small layers, such as depthwise ones: own weights there are worth more to
// its accuracy than anything else of as few bytes.
const bulk = 0.965

// sizeFirst says how many groups of a new list are tried at once: one where they are trained jointly, all where they are averaged, and the bulk of those adopted.
func (g *groups) sizeFirst() {
	switch {
	case len(g.waiting) == 0:
	case g.only:
		g.size = 1
	case g.mean:
		g.size = len(g.waiting[0])
	default:
		g.size = bulkOf(g.waiting[0])
	}
}

// bulkOf is how many first groups save the bulk of what all do.
func bulkOf(list []merging.Group) int {
	all, sum := int64(0), int64(0)
	for _, of := range list {
		all += of.Saved()
	}
	for i, of := range list {
		if sum += of.Saved(); float64(sum) >= bulk*float64(all) {
			return i + 1
		}
	}
	return len(list)
}

func (g *groups) batchTies() []merging.Group { return g.waiting[0][:min(g.size, len(g.waiting[0]))] }

func (g *groups) propose() []merging.Tie {
	if len(g.waiting) == 0 || len(g.waiting[0]) == 0 {
		return nil
	}
	ties := slices.Clone(g.kept)
	for _, of := range g.batchTies() {
		t := merging.Tie{Members: of.Members, Donor: merging.NoDonor}
		switch {
		case g.mean:
			t.Donor = merging.MeanDonor
		case !g.joint:
			t.Donor = dearest(of.Members, g.cost)
		}
		ties = joinTies(ties, t)
	}
	return ties
}

// joinTies adds a tie, to one with the same layer if there is one: if either has no donor, it has none.
func joinTies(ties []merging.Tie, t merging.Tie) []merging.Tie {
	tied := func(m merging.Member) func(merging.Tie) bool {
		return func(o merging.Tie) bool { return slices.Contains(o.Members, m) }
	}
	for _, m := range t.Members {
		i := slices.IndexFunc(ties, tied(m))
		if i < 0 {
			continue
		}
		one := merging.Tie{Members: slices.Clone(ties[i].Members), Donor: min(ties[i].Donor, t.Donor)}
		for _, m := range t.Members {
			if !slices.Contains(one.Members, m) {
				one.Members = append(one.Members, m)
			}
		}
		ties[i] = one
		return ties
	}
	return append(ties, t)
}

// dearest is the member's model that a frame costs most: of several, the one that was named first.
func dearest(members []merging.Member, cost []float64) int {
	return slices.MaxFunc(members, func(a, b merging.Member) int { return cmp.Compare(cost[a.Model], cost[b.Model]) }).Model
}

func (g *groups) judged(success bool) {
	n := len(g.batchTies())
	switch {
	case success:
		g.kept = g.propose()
		g.waiting[0] = g.waiting[0][n:]
		g.joint = g.only
	case n > 1:
		g.size = n / 2
	case !g.joint && !g.mean:
		g.joint = true
	default:
		g.halveBatch()
		g.joint = g.only
	}
	if len(g.waiting[0]) == 0 {
		g.waiting = g.waiting[1:]
		g.sizeFirst()
	}
}

// halveBatch leaves of the first group the members farther from their networks' inputs, or nothing where those save no more than the next group does.
func (g *groups) halveBatch() {
	list := g.waiting[0]
	first, next := list[0], int64(0)
	first.Members = laterHalf(first.Members, g.plan)
	if len(list) > 1 {
		next = list[1].Saved()
	}
	if first.Saved() > next {
		list[0] = first
	} else {
		g.waiting[0] = list[1:]
	}
}

// laterHalf are the members without the half of them that come first in their networks, in the members' order.
func laterHalf(members []merging.Member, plan *merging.Plan) []merging.Member {
	depth := func(m merging.Member) float64 {
		layers := plan.Models[m.Model].Layers
		return float64(slices.IndexFunc(layers, func(l merging.Layer) bool { return l.Name == m.Layer })) / float64(len(layers))
	}
	byDepth := slices.Clone(members)
	slices.SortStableFunc(byDepth, func(a, b merging.Member) int { return cmp.Compare(depth(a), depth(b)) })
	return slices.DeleteFunc(slices.Clone(members), func(m merging.Member) bool { return slices.Contains(byDepth[:len(members)/2], m) })
}

// stems shares so many first layers, between the longest that met the target and the shortest that did not.
type stems struct {
	layers   []merging.Tie // the longest stem, layer by layer
	met, not int
}

func newStems(plan *merging.Plan, cost []float64) *stems {
	var all []merging.Member
	for i := range plan.Models {
		all = append(all, merging.Member{Model: i})
	}
	donor := dearest(all, cost)
	layers := plan.Models[donor].Layers
	s := &stems{}
	on := map[int]bool{}
	for k, l := range layers {
		t := merging.Tie{Members: []merging.Member{{Model: donor, Layer: l.Name}}, Donor: donor}
		for i, m := range plan.Models {
			if i != donor && (k == 0 || on[i]) && k < len(m.Layers) && m.Layers[k].Signature == l.Signature && m.Layers[k].Bytes == l.Bytes {
				t.Members = append(t.Members, merging.Member{Model: i, Layer: m.Layers[k].Name})
			}
		}
		clear(on)
		for _, m := range t.Members[1:] {
			on[m.Model] = true
		}
		if len(on) == 0 {
			break
		}
		s.layers = append(s.layers, t)
	}
	s.not = len(s.layers) + 1
	return s
}

// propose tries the longest first, then the middle.
func (s *stems) propose() []merging.Tie {
	if s.not-s.met < 2 {
		return nil
	}
	return s.layers[:s.next()]
}

func (s *stems) next() int {
	if s.not > len(s.layers) {
		return len(s.layers)
	}
	return (s.met + s.not) / 2
}

func (s *stems) judged(success bool) {
	if success {
		s.met = s.next()
	} else {
		s.not = s.next()
	}
}
