package ref

import (
	"math"

	"github.com/prefillonly/prefillonly/kernels"
)

// Interpolate sums in float64.
func (b *Backend) Interpolate(dst, src kernels.Tensor, dim int, t kernels.Taps) {
	if b.recordError(kernels.CheckInterpolate(dst, src, dim, t)) {
		return
	}
	// Element (i, j, k) of dst has the dimensions before dim, dim itself, and those after it.
	out, before, after := viewOf(dst), 1, 1
	first := src // of dim, the one element that a tap's step is added to
	first.Shape = append([]int(nil), src.Shape...)
	for i, d := range dst.Shape {
		if i < dim {
			before *= d
		} else if i > dim {
			after *= d
		}
	}
	first.Shape[dim] = min(1, src.Shape[dim])
	in, size := viewOf(first), dst.Shape[dim]
	runParallel(before*size, func(task int) {
		i, j := task/size, task%size
		sums.withZeros(after, func(sum []float64) {
			for tap := t.Start[j]; tap < t.Start[j+1]; tap++ {
				step, weight := int(t.Index[tap])*src.Stride[dim], float64(t.Weight[tap])
				stride := in.stride[len(in.stride)-1]
				in.forEachRun(i*after, after, func(k, at, length int) {
					for l := range length {
						sum[k+l] += weight * float64(in.data[at+step+l*stride])
					}
				})
			}
			storeSums(&out, sum, task*after)
		})
	})
}

// storeSums rounds sums to elements of v from one on.
func storeSums(v *view, sum []float64, from int) {
	registers.withZeros(len(sum), func(rounded []float32) {
		for i, s := range sum {
			rounded[i] = float32(s)
		}
		v.storeElements(rounded, from)
	})
}

// MatMul computes rows of dst, in float64.
func (b *Backend) MatMul(dst, x, y kernels.Tensor) {
	if b.recordError(kernels.CheckMatMul(dst, x, y)) || dst.Elements() == 0 {
		return
	}
	lead := len(dst.Shape) - 2
	m, n, k := dst.Shape[lead], dst.Shape[lead+1], x.Shape[lead+1]
	out, left, right := viewOf(dst), viewOf(x), viewOf(y)
	runParallel(dst.Elements()/n, func(row int) {
		registers.withZeros(k+n, func(values []float32) {
			a, b := values[:k], values[k:]
			left.load(a, row*k)
			sums.withZeros(n, func(sum []float64) {
				for i, x := range a {
					right.load(b, (row/m*k+i)*n)
					for j, y := range b {
						sum[j] += float64(x) * float64(y)
					}
				}
				storeSums(&out, sum, row*n)
			})
		})
	})
}

// Reduce computes in float64, over the elements of src row-major.
func (b *Backend) Reduce(dst, src kernels.Tensor, how kernels.Reduction) {
	if b.recordError(kernels.CheckReduce(dst, src, how)) {
		return
	}
	// The elements that become the i-th of dst are those of made, from the i-th of kept on.
	kept, made := src, src
	kept.Shape, made.Shape = append([]int(nil), src.Shape...), append([]int(nil), src.Shape...)
	for i, d := range dst.Shape {
		if d != src.Shape[i] {
			kept.Shape[i] = min(1, src.Shape[i])
		} else {
			made.Shape[i] = min(1, src.Shape[i])
		}
	}
	out, starts, elements := viewOf(dst), viewOf(kept), viewOf(made)
	runParallel(dst.Elements(), func(i int) {
		total := [...]float64{kernels.Sum: 0, kernels.Product: 1, kernels.Largest: math.Inf(-1), kernels.Smallest: math.Inf(1)}[how]
		if n := made.Elements(); n > 0 {
			starts.forEachRun(i, 1, func(_, at, _ int) {
				total = reduceElements(total, &elements, at-elements.first, n, how)
			})
		}
		out.storeElements([]float32{float32(total)}, i)
	})
}

// reduceElements takes n elements, each some places further on, into a total.
func reduceElements(total float64, v *view, further, n int, how kernels.Reduction) float64 {
	stride := v.stride[len(v.stride)-1]
	v.forEachRun(0, n, func(_, at, length int) {
		for i := range length {
			total = reducePair(total, float64(v.data[at+further+i*stride]), how)
		}
	})
	return total
}

func reducePair(total, x float64, how kernels.Reduction) float64 {
	switch how {
	case kernels.Sum:
		return total + x
	case kernels.Product:
		return total * x
	case kernels.Largest:
		return max(total, x)
	}
	return min(total, x)
}
