package ref

import "github.com/prefillonly/prefillonly/kernels"

// multiplyInt8 is multiply with both sides quantised: each sum of products of codes is exact.
func multiplyInt8(out, in [][]float32, l *linear, add bool) {
	codes, scales := make([][]int8, len(in)), make([]float32, len(in))
	parallel(len(in), func(i int) {
		codes[i] = make([]int8, l.in)
		scales[i] = kernels.QuantizeI8(codes[i], in[i])
	})
	parallel((l.out+columnsPerTask-1)/columnsPerTask, func(task int) {
		from, to := task*columnsPerTask, min(l.out, (task+1)*columnsPerTask)
		var sums [columnsPerTask]float32
		for i, x := range codes {
			for j := from; j < to; j++ {
				sum := dotInt8(x, l.codes[j*l.in:(j+1)*l.in])
				sums[j-from] = float32(float32(float32(sum)*l.scale[j]) * scales[i])
			}
			l.end(out[i][from:to], sums[:], from, add)
		}
	})
}

func dotInt8(x, w []int8) (sum int32) {
	w = w[:len(x)]
	for i, v := range x {
		sum += int32(v) * int32(w[i])
	}
	return sum
}
