package spatial

import "github.com/prefillonly/prefillonly/engine/dnn/ops/op"

// Convolutions are operations with a kernel of weights.
var Convolutions = map[string]op.Definition{
	"Conv":          op.Define(conv, op.Floats, 2, 3, 1),
	"ConvTranspose": op.Define(convTranspose, op.Floats, 2, 3, 1),
}

// filterShapes is the shapes of a convolution's input and weights.
func filterShapes(c *op.Call) (d, weight []int, groups int) {
	c.Same(1, 2)
	d, weight = c.Ranked(0, 3, 5), c.Ranked(1, 3, 5)
	if len(d) != len(weight) {
		c.Fail("input has shape %v, weights %v: want as many dimensions", d, weight)
	}
	if groups = c.Int("group", 1); groups < 1 || groups > c.Limit {
		c.Fail("invalid attribute group %d: want at least 1", groups)
	}
	return d, weight, groups
}

func convWindow(c *op.Call) Window {
	d, weight, groups := filterShapes(c)
	if d[1] >= 0 && weight[1] >= 0 && d[1] != op.Multiple(weight[1], groups) {
		c.Fail("input has %d channels, want %d in each of %d groups", d[1], weight[1], groups)
	}
	if weight[0] >= 0 && weight[0]%groups != 0 {
		c.Fail("weights have %d outputs, want a multiple of group, %d", weight[0], groups)
	}
	w := readWindow(c, kernelOf(c, weight))
	setPadding(c, &w, d[2:], false)
	return w
}

func conv(c *op.Call) {
	w := convWindow(c)
	d, weight, groups := filterShapes(c)
	if c.Has(2) {
		c.Expect(2, weight[0])
	}
	c.Shaped(0, append([]int{d[0], weight[0]}, w.Out...)...)
	c.OnFloats(func(in [][]float64) []float64 {
		x, y, v := w.toWindow3(d[2:]), make([]float64, op.Product(c.Out[0].Shape)), op.Product(w.Out)
		each, perGroup, taps := op.Product(d[2:]), weight[0]/groups, op.Product(w.Kernel)
		if w.isPointwise() {
			x.in, x.out = [3]int{1, 1, each}, [3]int{1, 1, each}
		}
		for i := range d[0] * weight[0] {
			m := i % weight[0]
			out := y[i*v : (i+1)*v]
			if in[2] != nil {
				op.Mapped(func(float64) float64 { return in[2][m] }, out)
			}
			first := i/weight[0]*d[1] + m/perGroup*weight[1]
			x.correlate(out, in[0][first*each:][:weight[1]*each], in[1][m*weight[1]*taps:][:weight[1]*taps])
		}
		return y
	})
}

// correlate adds to out, of one image and channel, the sum of the input's channels times the kernels.
func (w *Window3) correlate(out, in, kernels []float64) {
	each, taps := w.in[0]*w.in[1]*w.in[2], w.kernel[0]*w.kernel[1]*w.kernel[2]
	for c := range len(kernels) / taps {
		kernel, image := kernels[c*taps:(c+1)*taps], in[c*each:]
		w.eachRow(func(to, from, k int) {
			w.correlateRow(out[to:to+w.out[2]], image[from:from+w.in[2]], kernel[k:k+w.kernel[2]])
		})
	}
}

// eachRow calls f with the beginnings of each row of outputs, the row of inputs under it and the row of taps that
// joins them.
func (w *Window3) eachRow(f func(to, from, k int)) {
	for k0 := range w.kernel[0] {
		from0, to0, first0 := w.outputRange(0, k0, w.out[0], w.in[0])
		for k1 := range w.kernel[1] {
			from1, to1, first1 := w.outputRange(1, k1, w.out[1], w.in[1])
			for o0 := from0; o0 < to0; o0++ {
				for o1 := from1; o1 < to1; o1++ {
					i0, i1 := first0+o0*w.strides[0], first1+o1*w.strides[1]
					f((o0*w.out[1]+o1)*w.out[2], (i0*w.in[1]+i1)*w.in[2], (k0*w.kernel[1]+k1)*w.kernel[2])
				}
			}
		}
	}
}

func (w *Window3) correlateRow(out, in, kernel []float64) {
	s := w.strides[2]
	for k, weight := range kernel {
		from, to, first := w.outputRange(2, k, len(out), len(in))
		if from == to {
			continue
		}
		o, x := out[from:to], in[first+from*s:]
		if s == 1 {
			x = x[:len(o)]
			for i := range o {
				o[i] += weight * x[i]
			}
			continue
		}
		for i := range o {
			o[i] += weight * x[i*s]
		}
	}
}

func transposedWindow(c *op.Call) Window {
	d, weight, groups := filterShapes(c)
	if d[1] >= 0 && weight[0] >= 0 && d[1] != weight[0] || weight[0] >= 0 && weight[0]%groups != 0 {
		c.Fail("input has %d channels, weights %d in %d groups: want equal channels, a multiple of the groups", d[1], weight[0], groups)
	}
	w := readWindow(c, kernelOf(c, weight))
	space := d[2:]
	extra := perDimension(c, "output_padding", len(space), 0)
	auto := c.Word("auto_pad", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
	want, given := c.List("output_shape")
	if given && len(want) == len(d) {
		want = want[2:] // as some exporters write it
	}
	if given && len(want) != len(space) {
		c.Fail("invalid attribute output_shape %v: want %d values", want, len(space))
	}
	for i, n := range space {
		if extra[i] < 0 || extra[i] >= max(w.Strides[i], w.Dilations[i]) && extra[i] > 0 {
			c.Fail("invalid attribute output_padding %v: want 0 or more, below the strides %v or the dilations", extra, w.Strides)
		}
		if n < 0 {
			w.Out[i], w.Before[i], w.After[i] = -1, -1, -1
			continue
		}
		full := w.Strides[i]*(n-1) + extra[i] + w.kernelExtent(i)
		switch same := auto == "SAME_UPPER" || auto == "SAME_LOWER"; {
		case given:
			w.Out[i] = want[i]
			w.dividePadding(i, max(full-want[i], 0), auto == "SAME_UPPER")
		case same:
			w.Out[i] = n * w.Strides[i]
			w.dividePadding(i, max(full-w.Out[i], 0), auto == "SAME_UPPER")
		default:
			if auto == "VALID" {
				w.Before[i], w.After[i] = 0, 0
			}
			w.Out[i] = full - w.Before[i] - w.After[i]
		}
		if w.Out[i] < 0 || given && want[i] < 1 {
			c.Fail("spatial dimension %d of the output would be %d, want at least 0", i, w.Out[i])
		}
	}
	return w
}

func convTranspose(c *op.Call) {
	w := transposedWindow(c)
	d, weight, groups := filterShapes(c)
	channels := op.Multiple(weight[1], groups)
	if c.Has(2) {
		c.Expect(2, channels)
	}
	c.Shaped(0, append([]int{d[0], channels}, w.Out...)...)
	c.OnFloats(func(in [][]float64) []float64 {
		back := w.toWindow3(w.Out) // from output to input, as the convolution that this transposes
		back.out = space3(d[2:], 1)
		y, v, taps := make([]float64, op.Product(c.Out[0].Shape)), op.Product(w.Out), op.Product(w.Kernel)
		each, perGroup := op.Product(d[2:]), weight[0]/groups
		for i := range d[0] * channels {
			m := i % channels
			out := y[i*v : (i+1)*v]
			if in[2] != nil {
				op.Mapped(func(float64) float64 { return in[2][m] }, out)
			}
			for k := range perGroup {
				from := m/weight[1]*perGroup + k
				kernel := in[1][(from*weight[1]+m%weight[1])*taps:][:taps]
				image := in[0][(i/channels*d[1]+from)*each:][:each]
				back.eachRow(func(to, at, k int) {
					back.scatterRow(out[at:at+back.in[2]], image[to:to+back.out[2]], kernel[k:k+back.kernel[2]])
				})
			}
		}
		return y
	})
}

// scatterRow is row the other way around: it adds to the inputs what outputs have times the taps.
func (w *Window3) scatterRow(in, out, kernel []float64) {
	for k, weight := range kernel {
		from, to, first := w.outputRange(2, k, len(out), len(in))
		for o := from; o < to; o++ {
			in[first+o*w.strides[2]] += weight * out[o]
		}
	}
}
