package ref

import (
	"math"

	"github.com/prefillonly/prefillonly/kernels"
)

// columnsPerTask is how many output columns one goroutine computes at a time.
const columnsPerTask = 32

// NormLinear sets dst = n(x) l^T + bias.
func (b *Backend) NormLinear(dst, x kernels.Mat, n kernels.Norm, l kernels.Linear) {
	b.multiplyLinear(rowsOf(dst), normRows(x, n), l.(*linear), false)
}

// AddLinear sets x += src l^T + bias.
func (b *Backend) AddLinear(x, src kernels.Mat, l kernels.Linear) {
	b.multiplyLinear(rowsOf(x), rowsOf(src), l.(*linear), true)
}

// MLP sets x += down(act(up(n(x)))), or act(g) * u in between.
func (b *Backend) MLP(x kernels.Mat, n kernels.Norm, act kernels.Activation, up, down kernels.Linear) {
	b.multiplyLinear(rowsOf(x), b.innerRows(x, n, act, up, down), down.(*linear), true)
}

// Product sets dst = src l^T + bias.
func (b *Backend) Product(dst, src kernels.Mat, l kernels.Linear) {
	b.multiplyLinear(rowsOf(dst), rowsOf(src), l.(*linear), false)
}

// MLPProduct sets dst to what MLP adds.
func (b *Backend) MLPProduct(dst, x kernels.Mat, n kernels.Norm, act kernels.Activation, up, down kernels.Linear) {
	b.multiplyLinear(rowsOf(dst), b.innerRows(x, n, act, up, down), down.(*linear), false)
}

// AddNorm sets x += n(src).
func (b *Backend) AddNorm(x, src kernels.Mat, n kernels.Norm) {
	given := normRows(src, n)
	for i := range x.Rows {
		row := matrixRow(x, i)
		for j, v := range given[i] {
			row[j] += v
		}
	}
}

// innerRows returns what stands between the two matrices of an MLP.
func (b *Backend) innerRows(x kernels.Mat, n kernels.Norm, act kernels.Activation, up, down kernels.Linear) [][]float32 {
	inner := newRows(x.Rows, up.Out())
	b.multiplyLinear(inner, normRows(x, n), up.(*linear), false)
	return activateRows(inner, act, down.In())
}

// activateRows makes of the products of an MLP's first matrix what its second one, so many columns wide, is multiplied with.
func activateRows(inner [][]float32, act kernels.Activation, width int) [][]float32 {
	runParallel(len(inner), func(i int) {
		r := inner[i]
		for j := range width {
			r[j] = activate(r[j], act)
		}
		if len(r) == 2*width { // the rows of up are below those of the gate
			for j := range width {
				r[j] *= r[width+j]
			}
		}
		inner[i] = r[:width]
	})
	return inner
}

// newRows makes n rows of the given width.
func newRows(n, cols int) [][]float32 {
	all := make([]float32, n*cols)
	rows := make([][]float32, n)
	for i := range rows {
		rows[i] = all[i*cols : (i+1)*cols]
	}
	return rows
}

func rowsOf(m kernels.Mat) [][]float32 {
	rows := make([][]float32, m.Rows)
	for i := range rows {
		rows[i] = matrixRow(m, i)
	}
	return rows
}

// normRows returns n(x).
func normRows(x kernels.Mat, n kernels.Norm) [][]float32 {
	out := newRows(x.Rows, x.Cols)
	runParallel(x.Rows, func(i int) {
		switch copy(out[i], matrixRow(x, i)); {
		case n.Weight == nil:
		case n.Centred:
			layerNorm(out[i], n)
		default:
			rmsNorm(out[i], n.Weight.(*vector).weight, n.Eps)
		}
	})
	return out
}

// rmsNorm sets x = x / sqrt(mean(x^2) + eps) * w. (Zhang and Sennrich, Root Mean Square
// Layer Normalization, 2019, eq. 4.)
func rmsNorm(x, w []float32, eps float32) {
	sum := 0.0
	for _, v := range x {
		sum += float64(float64(v) * float64(v))
	}
	scale := float32(1 / math.Sqrt(sum/float64(len(x))+float64(eps)))
	for i, v := range x {
		x[i] = float32(v*scale) * w[i]
	}
}

// quantizeRows returns the values of the codes of each row, and the rows' scales.
func quantizeRows(in [][]float32) (codes [][]float32, scales []float32) {
	codes, scales = newRows(len(in), len(in[0])), make([]float32, len(in))
	runParallel(len(in), func(i int) {
		row := make([]kernels.E4M3, len(in[i]))
		scales[i] = kernels.QuantizeE4M3(row, in[i])
		for j, c := range row {
			codes[i][j] = c.Float32()
		}
	})
	return codes, scales
}

// multiplyLinear sets out[i][j] = in[i] . l.weight[j] + l.bias[j], or adds it to what is there.
func (b *Backend) multiplyLinear(out, in [][]float32, l *linear, add bool) {
	if l.codes != nil {
		multiplyInt8(out, in, l, add)
		return
	}
	var rowScale []float32
	if l.fp8 && b.fp8 && len(in) > 0 {
		in, rowScale = quantizeRows(in)
	}
	runParallel((l.out+columnsPerTask-1)/columnsPerTask, func(task int) {
		from, to := task*columnsPerTask, min(l.out, (task+1)*columnsPerTask)
		for i, x := range in {
			sums := l.rowDots(x, from, to)
			if rowScale != nil {
				for j := range sums {
					sums[j] = float32(sums[j] * rowScale[i])
				}
			}
			for j := range to - from {
				if l.scale != nil {
					sums[j] = float32(sums[j] * l.scale[from+j])
				}
			}
			l.storeWithBias(out[i][from:to], sums[:], from, add)
		}
	})
}

// rowDots multiplies x with the rows [from, to) of the weights.
func (l *linear) rowDots(x []float32, from, to int) (sums [columnsPerTask]float32) {
	j := from
	for ; j+4 <= to; j += 4 {
		w := l.weight[j*l.in:]
		sums[j-from], sums[j-from+1], sums[j-from+2], sums[j-from+3] = dot4(x, w[:l.in], w[l.in:2*l.in], w[2*l.in:3*l.in], w[3*l.in:4*l.in])
	}
	for ; j < to; j++ {
		sums[j-from] = dot(x, l.weight[j*l.in:(j+1)*l.in])
	}
	return sums
}

// storeWithBias adds the bias to sums of columns from on, and stores them in y or adds them to it.
func (l *linear) storeWithBias(y, sums []float32, from int, add bool) {
	for j := range y {
		sum := sums[j]
		if l.bias != nil {
			sum += l.bias[from+j]
		}
		if add {
			sum += y[j]
		}
		y[j] = sum
	}
}

// dot sums x[i]*w[i] in the order of i.
func dot(x, w []float32) float32 {
	w = w[:len(x)]
	var sum float32
	for i, v := range x {
		sum += float32(v * w[i])
	}
	return sum
}

// dot4 is four dots at once, each in the same order as dot.
func dot4(x, w0, w1, w2, w3 []float32) (s0, s1, s2, s3 float32) {
	w0, w1, w2, w3 = w0[:len(x)], w1[:len(x)], w2[:len(x)], w3[:len(x)]
	for i, v := range x {
		s0 += float32(v * w0[i])
		s1 += float32(v * w1[i])
		s2 += float32(v * w2[i])
		s3 += float32(v * w3[i])
	}
	return s0, s1, s2, s3
}
