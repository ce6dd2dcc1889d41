package ops

import "slices"

// lanes are the runs of elements of a dense tensor along some of its dimensions.
type lanes struct {
	starts, steps []int // element k of lane i is starts[i]+steps[k]
}

func lanesOf(shape, axes []int) lanes {
	dense := strides(shape)
	var outer, outerStride, inner, innerStride []int
	for i, d := range shape {
		if slices.Contains(axes, i) {
			inner, innerStride = append(inner, d), append(innerStride, dense[i])
		} else {
			outer, outerStride = append(outer, d), append(outerStride, dense[i])
		}
	}
	return lanes{offsets(outer, outerStride), offsets(inner, innerStride)}
}

// each calls f with every lane of x, in order; what it writes there goes back into x.
func (l lanes) each(x []float64, f func(i int, lane []float64)) {
	lane := make([]float64, len(l.steps))
	for i, start := range l.starts {
		for k, step := range l.steps {
			lane[k] = x[start+step]
		}
		f(i, lane)
		for k, step := range l.steps {
			x[start+step] = lane[k]
		}
	}
}

// reduced is f of every lane.
func reduced[T any](l lanes, x []T, f func([]T) T) []T {
	lane, out := make([]T, len(l.steps)), make([]T, len(l.starts))
	for i, start := range l.starts {
		for k, step := range l.steps {
			lane[k] = x[start+step]
		}
		out[i] = f(lane)
	}
	return out
}
