package pipeline

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

// Gradients are AccGrad and OutputGrad at a configuration (OneAdapt, 4.1.4): for each knob, by how much accuracy differs when it moves by one setting, and by how much a
// gradient says that the output does, over how far that is. Each knob takes a look of the network.
func (l *Lab) Gradients(interval int, c oneadapt.Config) (accuracies, outputs []float64, err error) {
	against, err := l.prepare(interval, c)
	if err != nil {
		return nil, nil, err
	}
	data, err := l.slope(against)
	if err != nil {
		return nil, nil, err
	}
	m, err := oneadapt.ReadMap(data)
	if err != nil {
		return nil, nil, err
	}
	truth, err := l.truth(interval)
	if err != nil {
		return nil, nil, err
	}
	base, err := l.look(against)
	if err != nil {
		return nil, nil, err
	}
	was := l.Accuracy(truth, base)
	for i, knob := range l.Knobs() {
		moved := slices.Clone(c)
		if moved[i]++; moved[i] == len(knob.Places) {
			moved[i] -= 2
		}
		in, err := l.prepare(interval, moved)
		if err != nil {
			return nil, nil, err
		}
		got, err := l.look(in)
		if err != nil {
			return nil, nil, err
		}
		changes, err := l.Changes(m, against, in)
		if err != nil {
			return nil, nil, err
		}
		by := math.Abs(knob.Places[moved[i]] - knob.Places[c[i]])
		accuracies = append(accuracies, math.Abs(l.Accuracy(truth, got)-was)/by)
		outputs = append(outputs, sum(changes)/by)
	}
	return accuracies, outputs, nil
}

// Alignment is the cosine between AccGrad and OutputGrad at a configuration; NaN where accuracy, or the output, does not change by any knob.
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

func sum(values []float64) (all float64) {
	for _, v := range values {
		all += v
	}
	return all
}
