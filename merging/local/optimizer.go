package local

import "math"

// rule is how parameters follow their gradients.
type rule struct {
	plain bool // stochastic gradient descent; else Adam
}

// Adam's constants (Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015).
const (
	decayFirst  = 0.9
	decaySecond = 0.999
	epsilon     = 1e-8
)

// moments are what Adam keeps of a parameter's gradients: their mean, and that of their squares, decaying.
type moments struct {
	Steps         int
	First, Second []float32
}

// moveValues moves values against their gradient at a rate.
func (r rule) moveValues(values, gradient []float32, m *moments, rate float64) {
	m.Steps++
	if r.plain {
		for i, g := range gradient {
			values[i] -= float32(rate * float64(g))
		}
		return
	}
	if m.First == nil {
		m.First, m.Second = make([]float32, len(values)), make([]float32, len(values))
	}
	first, second := 1-math.Pow(decayFirst, float64(m.Steps)), 1-math.Pow(decaySecond, float64(m.Steps))
	for i, g := range gradient {
		m.First[i] += (1 - decayFirst) * (g - m.First[i])
		m.Second[i] += (1 - decaySecond) * (g*g - m.Second[i])
		values[i] -= float32(rate * float64(m.First[i]) / first / (math.Sqrt(float64(m.Second[i])/second) + epsilon))
	}
}
