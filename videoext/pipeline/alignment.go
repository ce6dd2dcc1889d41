package pipeline

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

// Gradients are AccGrad and OutputGrad at a configuration (OneAdapt, 4.1.4): for each knob, or group of knobs, by how much accuracy differs when it moves by one setting, and by how much a
// gradient says that the output does, over how far that is. Each takes a look of the network.
func (l *Lab) Gradients(interval int, c oneadapt.Config) (accuracies, outputs []float64, err error) {
	against, err := l.prepareOnce(interval, c)
	if err != nil {
		return nil, nil, err
	}
	data, err := l.gradientOnce(against)
	if err != nil {
		return nil, nil, err
	}
	m, err := oneadapt.ReadMap(data)
	if err != nil {
		return nil, nil, err
	}
	truth, err := l.groundTruth(interval)
	if err != nil {
		return nil, nil, err
	}
	base, err := l.inferOnce(against)
	if err != nil {
		return nil, nil, err
	}
	was := l.Accuracy(truth, base)
	for _, group := range l.Groups() {
		moved, by := l.moved(c, group)
		in, err := l.prepareOnce(interval, moved)
		if err != nil {
			return nil, nil, err
		}
		got, err := l.inferOnce(in)
		if err != nil {
			return nil, nil, err
		}
		changes, err := l.Changes(m, against, in)
		if err != nil {
			return nil, nil, err
		}
		accuracies = append(accuracies, math.Abs(l.Accuracy(truth, got)-was)/by)
		outputs = append(outputs, sumValues(changes)/by)
	}
	return accuracies, outputs, nil
}

// Groups are the knobs that move together where gradients are compared with accuracy.
func (l *Lab) Groups() [][]int {
	if grouped, ok := l.Pipeline.(Grouped); ok {
		return grouped.Groups()
	}
	return Each(len(l.Knobs()))
}

// moved is a configuration with some knobs one setting up, or down where there is none, and how far that is in the mean of them.
func (l *Lab) moved(c oneadapt.Config, group []int) (moved oneadapt.Config, by float64) {
	moved = slices.Clone(c)
	knobs := l.Knobs()
	for _, i := range group {
		if moved[i]++; moved[i] == len(knobs[i].Places) {
			moved[i] -= 2
		}
		by += math.Abs(knobs[i].Places[moved[i]]-knobs[i].Places[c[i]]) / float64(len(group))
	}
	return moved, by
}

// Alignment is the cosine between the absolute values of AccGrad and OutputGrad at a configuration; NaN where accuracy, or the output, does not change by any knob.
func (l *Lab) Alignment(interval int, c oneadapt.Config) (cosine float64, err error) {
	accuracies, outputs, err := l.Gradients(interval, c)
	return Cosine(accuracies, outputs), err
}

// Cosine is that of the angle between two vectors; NaN where one is zero.
func Cosine(a, b []float64) float64 {
	var dot, squares, others float64
	for i, v := range a {
		dot, squares, others = dot+v*b[i], squares+v*v, others+b[i]*b[i]
	}
	return dot / math.Sqrt(squares*others)
}

func sumValues(values []float64) (all float64) {
	for _, v := range values {
		all += v
	}
	return all
}
