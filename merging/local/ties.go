package local

import (
	"fmt"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/inspect"
	"github.com/prefillonly/prefillonly/merging"
)

// parameter is elements that are trained, of one constant or of those that a tie makes one.
type parameter struct {
	name    string // tells it from others of the session
	values  []float32
	average []float32 // of the values after steps, the last ones most: what the model has
	moments moments
	unit    float64 // by which it moves: how large its elements are, and less where many are summed and move together
}

// Tie implements merging.Session.
func (s *session) Tie(ties []merging.Tie) error {
	if err := s.checkTies(ties); err != nil {
		return err
	}
	for _, w := range s.workers {
		w.closeStudents()
	}
	s.ties = slices.Clone(ties)
	before := s.params
	s.params = nil
	tied := make([]map[*graph.Value]bool, len(s.models))
	for i, m := range s.models {
		m.adopted, m.trained, tied[i] = map[*graph.Value]*graph.Tensor{}, nil, map[*graph.Value]bool{}
	}
	trains := make([]bool, len(s.models))
	for _, t := range ties {
		s.tieLayers(t, before, tied, trains)
	}
	for i, m := range s.models {
		if trains[i] {
			s.addOwn(i, m, before, tied[i])
		}
	}
	return nil
}

// tieLayers shares the weights of a tie's members: the donor's, or a parameter that all of them are uses of.
func (s *session) tieLayers(t merging.Tie, before []*parameter, tied []map[*graph.Value]bool, trains []bool) {
	var joint *parameter
	for _, member := range t.Members {
		m := s.models[member.Model]
		weights := m.findLayer(member.Layer).Weights
		tied[member.Model][weights] = true
		switch {
		case t.Donor == merging.NoDonor:
			if joint == nil {
				joint = s.addParameter(fmt.Sprint(t.Members), weights.Const, before)
			}
			m.trained = append(m.trained, &use{weights, joint})
			trains[member.Model] = true
		case t.Donor == merging.MeanDonor:
			m.adopted[weights] = s.averageWeights(t)
			trains[member.Model] = true
		case t.Donor != member.Model:
			m.adopted[weights] = s.donated(t)
			trains[member.Model] = true
		}
	}
}

// donated is the weights of a tie's donor.
func (s *session) donated(t merging.Tie) *graph.Tensor {
	i := slices.IndexFunc(t.Members, func(m merging.Member) bool { return m.Model == t.Donor })
	return s.models[t.Donor].findLayer(t.Members[i].Layer).Weights.Const
}

// averageWeights is the mean of the weights in a tie's members' files.
func (s *session) averageWeights(t merging.Tie) *graph.Tensor {
	var sum []float32
	var like *graph.Tensor
	for _, member := range t.Members {
		like = s.models[member.Model].findLayer(member.Layer).Weights.Const
		if sum == nil {
			sum = make([]float32, like.Len())
		}
		for i, v := range elementsOf(like) {
			sum[i] += v / float32(len(t.Members))
		}
	}
	return tensorOf(like, sum)
}

// addOwn makes parameters of what is a trained model's own: biases, normalisations, and weights of no tie.
func (s *session) addOwn(at int, m *model, before []*parameter, tied map[*graph.Value]bool) {
	for _, v := range m.own {
		if !tied[v] {
			p := s.addParameter(fmt.Sprint(at, " ", v.Name), v.Const, before)
			m.trained = append(m.trained, &use{v, p})
		}
	}
}

// addParameter makes a parameter, which begins as it was before or, if it is new, as a constant.
func (s *session) addParameter(name string, from *graph.Tensor, before []*parameter) *parameter {
	i := slices.IndexFunc(before, func(p *parameter) bool { return p.name == name })
	if i >= 0 {
		s.params = append(s.params, before[i])
		return before[i]
	}
	p := &parameter{name: name, values: elementsOf(from), average: elementsOf(from)}
	p.unit = sizeOf(p.values) / math.Sqrt(float64(summed(from.Shape)))
	s.params = append(s.params, p)
	return p
}

// summed is how many products with a constant's elements are one sum.
func summed(shape []int) int {
	switch len(shape) {
	case 0, 1: // a bias
		return 1
	case 2: // a matrix
		return max(shape[0], 1)
	}
	return max(graph.Elements(shape[1:]), 1)
}

// leastUnit is the size of elements of a parameter that is nearly 0, so that it moves too.
const leastUnit = 0.01

// sizeOf is the root of the mean square of elements.
func sizeOf(elements []float32) float64 {
	sum := 0.0
	for _, v := range elements {
		sum += float64(v) * float64(v)
	}
	return max(math.Sqrt(sum/float64(max(len(elements), 1))), leastUnit)
}

// checkTies says why layers cannot be tied.
func (s *session) checkTies(ties []merging.Tie) error {
	seen := map[merging.Member]bool{}
	for i, t := range ties {
		if err := s.checkTie(t, seen); err != nil {
			return fmt.Errorf("tie %d: %w", i, err)
		}
	}
	return nil
}

func (s *session) checkTie(t merging.Tie, seen map[merging.Member]bool) error {
	var first *inspect.Layer
	donor := t.Donor == merging.NoDonor || t.Donor == merging.MeanDonor
	for _, member := range t.Members {
		if member.Model < 0 || member.Model >= len(s.models) {
			return fmt.Errorf("got model %d, want one of %d", member.Model, len(s.models))
		}
		m := s.models[member.Model]
		l := m.findLayer(member.Layer)
		switch {
		case l == nil:
			return fmt.Errorf("%s has no layer %q", m.File, member.Layer)
		case seen[member]:
			return fmt.Errorf("layer %q of %s is in two ties", member.Layer, m.File)
		case t.Donor < 0 && l.Weights.Type != engine.FP32:
			return fmt.Errorf("layer %q of %s is of %v and cannot be trained: want FP32, or a donor", member.Layer, m.File, l.Weights.Type)
		case first != nil && first.Signature != l.Signature:
			return fmt.Errorf("layer %q of %s is %s, want %s as layer %q", l.Name, m.File, l.Signature, first.Signature, first.Name)
		}
		if first == nil {
			first = l
		}
		seen[member] = true
		donor = donor || member.Model == t.Donor
	}
	if first == nil || !donor {
		return fmt.Errorf("no layer of the donor, model %d", t.Donor)
	}
	return nil
}

// Constants implements merging.Session.
func (s *session) Constants(at int) map[string][]float32 {
	named := map[string][]float32{}
	for v, t := range s.models[at].changedConstants() {
		if !slices.Equal(t.Data, v.Const.Data) {
			named[v.Name] = elementsOf(t)
		}
	}
	return named
}
