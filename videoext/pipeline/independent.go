package pipeline

import (
	"cmp"
	"slices"

	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

// Independent tries the settings of one knob at a time, with all others at their dearest, and takes knobs to act independently of each other: accuracy and cost of a
// configuration are the products of what its settings have. Of all configurations the Top ones are then tried as they are, in each profile until the knobs are
// gone through again (Jiang and others, "Chameleon", SIGCOMM 2018, sections 4.2 and 4.3).
type Independent struct {
	Knobs  []oneadapt.Knob
	Stride []int // of every knob, only each so-manieth setting is tried, from the dearest on; one for each knob
	Top    int   // 5 in the paper
	Again  int   // profiles from one that goes through the knobs to the next such; 4 in the paper
	Goal   Goal  // which the Top are the best by

	profiles int
	top      []oneadapt.Config
}

// Candidates implements Search.
func (s *Independent) Candidates() (all []oneadapt.Config) {
	if s.profiles%s.Again > 0 {
		return s.top
	}
	dearest := oneadapt.Dearest(s.Knobs)
	all = append(all, dearest)
	for i := range s.Knobs {
		for setting := dearest[i] - s.Stride[i]; setting >= 0; setting -= s.Stride[i] {
			c := slices.Clone(dearest)
			c[i] = setting
			all = append(all, c)
		}
	}
	return all
}

// Learn implements Search.
func (s *Independent) Learn(tried []Tried) []Tried {
	s.profiles++
	if (s.profiles-1)%s.Again > 0 {
		return tried
	}
	known := s.productConfigs(tried)
	slices.SortStableFunc(known, func(a, b Tried) int { return cmp.Compare(s.Goal.Worth(b), s.Goal.Worth(a)) })
	s.top = nil
	for _, t := range known[:min(s.Top, len(known))] {
		s.top = append(s.top, t.Config)
	}
	return known
}

// productConfigs are all configurations of the settings that were tried.
func (s *Independent) productConfigs(tried []Tried) (all []Tried) {
	for _, c := range Grid(s.Knobs, s.Stride...) {
		t := Tried{c, 1, 1}
		for i, setting := range c {
			for _, one := range tried {
				if isSingleChange(s.Knobs, one.Config, i, setting) {
					t.Accuracy, t.Cost = t.Accuracy*one.Accuracy, t.Cost*one.Cost
					break
				}
			}
		}
		all = append(all, t)
	}
	return all
}

// isSingleChange says that a configuration has a setting of one knob, and the dearest of all others.
func isSingleChange(knobs []oneadapt.Knob, c oneadapt.Config, knob, setting int) bool {
	for i := range c {
		want := len(knobs[i].Places) - 1
		if i == knob {
			want = setting
		}
		if c[i] != want {
			return false
		}
	}
	return true
}
