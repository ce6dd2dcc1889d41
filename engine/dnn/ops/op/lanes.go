package op

import "slices"

// Lanes are the runs of elements of a dense tensor along some of its dimensions.
type Lanes struct {
	Starts, Steps []int // element k of lane i is starts[i]+steps[k]
}

// LanesOf are those along axes, in the order of the other dimensions.
func LanesOf(shape, axes []int) Lanes {
	dense := Strides(shape)
	var outer, outerStride, inner, innerStride []int
	for i, d := range shape {
		if slices.Contains(axes, i) {
			inner, innerStride = append(inner, d), append(innerStride, dense[i])
		} else {
			outer, outerStride = append(outer, d), append(outerStride, dense[i])
		}
	}
	return Lanes{Offsets(outer, outerStride), Offsets(inner, innerStride)}
}

// Each calls f with every lane of x, in order; what it writes there goes back into x.
func (l Lanes) Each(x []float64, f func(i int, lane []float64)) {
	lane := make([]float64, len(l.Steps))
	for i, start := range l.Starts {
		for k, step := range l.Steps {
			lane[k] = x[start+step]
		}
		f(i, lane)
		for k, step := range l.Steps {
			x[start+step] = lane[k]
		}
	}
}

// Reduced is f of every lane.
func Reduced[T any](l Lanes, x []T, f func([]T) T) []T {
	lane, out := make([]T, len(l.Steps)), make([]T, len(l.Starts))
	for i, start := range l.Starts {
		for k, step := range l.Steps {
			lane[k] = x[start+step]
		}
		out[i] = f(lane)
	}
	return out
}
