package search

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/merging/trainer"
)

// Policy says what is tried, and in which order.
type Policy string

// The policies.
const (
	// Adopt tries all groups at once, of each a donor that stays as it is, and half of them, those that save most, where that fails. A single group
	// that fails so is trained jointly, then without the half of its members nearest their networks' inputs.
	Adopt Policy = "adopt"
	// Joint is the paper's: one group at a time, trained by all members together, and halved like that.
	Joint Policy = "joint"
	// Stem shares beginnings alone, the donor's, and finds by bisection how many layers of them (Mainstream, ATC 2018).
	Stem Policy = "stem"
)

// Policies lists them.
func Policies() []string { return []string{string(Adopt), string(Joint), string(Stem)} }

// Check refuses a policy that is none.
func (p Policy) Check() error {
	if !slices.Contains(Policies(), string(p)) {
		return fmt.Errorf("unknown policy %q: want one of %s", p, strings.Join(Policies(), ", "))
	}
	return nil
}

// A policy proposes ties, all that there are to be, and is told what became of them. nil: it is at its end.
type policy interface {
	propose() []trainer.Tie
	judged(success bool)
}

func newPolicy(plan *merging.Plan, o Options) policy {
	switch o.Policy {
	case Stem:
		return newStems(plan, o.Cost)
	case Joint:
		return &groups{plan: plan, cost: o.Cost, waiting: slices.Clone(plan.Groups), size: 1, joint: true, only: true}
	}
	return &groups{plan: plan, cost: o.Cost, waiting: slices.Clone(plan.Groups), size: len(plan.Groups)}
}

// groups tries so many groups at a time, beside those that are kept.
type groups struct {
	plan    *merging.Plan
	cost    []float64
	kept    []trainer.Tie
	waiting []merging.Group // those that save most first
	size    int             // how many are tried at once
	joint   bool            // the first is trained jointly
	only    bool            // all are
}

func (g *groups) batch() []merging.Group { return g.waiting[:min(g.size, len(g.waiting))] }

func (g *groups) propose() []trainer.Tie {
	if len(g.waiting) == 0 {
		return nil
	}
	ties := slices.Clone(g.kept)
	for _, of := range g.batch() {
		t := trainer.Tie{Members: of.Members, Donor: trainer.NoDonor}
		if !g.joint {
			t.Donor = dearest(of.Members, g.cost)
		}
		ties = append(ties, t)
	}
	return ties
}

// dearest is the member's model that a frame costs most: of several, the one that was named first.
func dearest(members []merging.Member, cost []float64) int {
	return slices.MaxFunc(members, func(a, b merging.Member) int { return cmp.Compare(cost[a.Model], cost[b.Model]) }).Model
}

func (g *groups) judged(success bool) {
	n := len(g.batch())
	switch {
	case success:
		g.kept = g.propose()
		g.waiting = g.waiting[n:]
		g.joint = g.only
	case n > 1:
		g.size = n / 2
	case !g.joint:
		g.joint = true
	default:
		g.halve()
		g.joint = g.only
	}
}

// halve leaves of the first group the members farther from their networks' inputs, or nothing where those save no more than the next group does.
func (g *groups) halve() {
	first := g.waiting[0]
	first.Members = laterHalf(first.Members, g.plan)
	next := int64(0)
	if len(g.waiting) > 1 {
		next = g.waiting[1].Saved()
	}
	if first.Saved() > next {
		g.waiting[0] = first
	} else {
		g.waiting = g.waiting[1:]
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
	layers   []trainer.Tie // the longest stem, layer by layer
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
		t := trainer.Tie{Members: []merging.Member{{Model: donor, Layer: l.Name}}, Donor: donor}
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
func (s *stems) propose() []trainer.Tie {
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
