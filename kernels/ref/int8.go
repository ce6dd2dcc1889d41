package ref

import "github.com/prefillonly/prefillonly/kernels"

// multiplyInt8 is multiply with both sides quantised: each sum of products of codes is exact.
func multiplyInt8(out, in [][]float32, l *linear, add bool) {
	codes, scales := quantizeInt8(in)
	runParallel((l.out+columnsPerTask-1)/columnsPerTask, func(task int) {
		from, to := task*columnsPerTask, min(l.out, (task+1)*columnsPerTask)
		var sums [columnsPerTask]float32
		for i, x := range codes {
			for j := from; j < to; j++ {
				sums[j-from] = scaledDot(x, scales[i], l.codes[j*l.in:(j+1)*l.in], l.scale[j])
			}
			l.storeWithBias(out[i][from:to], sums[:], from, add)
		}
	})
}

// quantizeInt8 is rows' codes, and what those of each row are worth.
func quantizeInt8(in [][]float32) (codes [][]int8, scales []float32) {
	codes, scales = make([][]int8, len(in)), make([]float32, len(in))
	runParallel(len(in), func(i int) {
		codes[i] = make([]int8, len(in[i]))
		scales[i] = kernels.QuantizeI8(codes[i], in[i])
	})
	return codes, scales
}

// scaledDot is the product of a row's codes and a column's.
func scaledDot(x []int8, scale float32, w []int8, columnScale float32) float32 {
	return float32(float32(float32(dotInt8(x, w))*columnScale) * scale)
}

func dotInt8(x, w []int8) (sum int32) {
	w = w[:len(x)]
	for i, v := range x {
		sum += int32(v) * int32(w[i])
	}
	return sum
}
