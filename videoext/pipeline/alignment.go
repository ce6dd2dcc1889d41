package pipeline

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

// Alignment is the cosine between AccGrad and OutputGrad at a configuration (OneAdapt, 4.1.4): for each knob, by how much accuracy differs when it moves by one setting, and by how
// much a gradient says that the output does; NaN where accuracy does not change by any knob. Each knob takes a look of the network.
func (l *Lab) Alignment(interval int, c oneadapt.Config) (cosine float64, err error) {
	against, err := l.prepare(interval, c)
	if err != nil {
		return 0, err
	}
	data, err := l.slope(against)
	if err != nil {
		return 0, err
	}
	m, err := oneadapt.ReadMap(data)
	if err != nil {
		return 0, err
	}
	truth, err := l.truth(interval)
	if err != nil {
		return 0, err
	}
	base, err := l.look(against)
	if err != nil {
		return 0, err
	}
	was := l.Accuracy(truth, base)
	var dot, accuracies, outputs float64
	for i, knob := range l.Knobs() {
		moved := slices.Clone(c)
		if moved[i]++; moved[i] == len(knob.Places) {
			moved[i] -= 2
		}
		in, err := l.prepare(interval, moved)
		if err != nil {
			return 0, err
		}
		got, err := l.look(in)
		if err != nil {
			return 0, err
		}
		changes, err := l.Changes(m, against, in)
		if err != nil {
			return 0, err
		}
		by := math.Abs(knob.Places[moved[i]] - knob.Places[c[i]])
		accuracy, output := math.Abs(l.Accuracy(truth, got)-was)/by, sum(changes)/by
		dot, accuracies, outputs = dot+accuracy*output, accuracies+accuracy*accuracy, outputs+output*output
	}
	return dot / math.Sqrt(accuracies*outputs), nil
}

func sum(values []float64) (all float64) {
	for _, v := range values {
		all += v
	}
	return all
}
