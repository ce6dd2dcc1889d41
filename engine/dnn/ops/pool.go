package ops

import (
	"math"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// pools are operations that make windows of space one element each.
var pools = map[string]definition{
	"MaxPool":           {maxPool, floats | 1<<engine.Int8 | 1<<engine.Uint8, 1, 1, 2},
	"AveragePool":       {averagePool, floats, 1, 1, 1},
	"LpPool":            {lpPool, floats, 1, 1, 1},
	"MaxUnpool":         {maxUnpool, floats, 2, 3, 1},
	"GlobalMaxPool":     {globalPool(func(*call) func([]float64) float64 { return largest }), floats, 1, 1, 1},
	"GlobalAveragePool": {globalPool(func(*call) func([]float64) float64 { return average }), floats, 1, 1, 1},
	"GlobalLpPool":      {globalPool(func(c *call) func([]float64) float64 { return norm(c.norm()) }), floats, 1, 1, 1},
}

func (c *call) poolWindow() Window {
	d := c.ranked(0, 3, 5)
	kernel, ok := c.list("kernel_shape")
	if !ok || len(kernel) != len(d)-2 {
		c.fail("attribute kernel_shape is %v, for the input %v", kernel, d)
	}
	w := c.window(kernel)
	c.slide(&w, d[2:], c.flag("ceil_mode", false))
	return w
}

// taps calls f with each output of an image and the inputs in its window.
func (w *window3) taps(f func(out int, in []int)) {
	in := make([]int, 0, 64)
	for o := range w.out[0] * w.out[1] * w.out[2] {
		at := [3]int{o / w.out[2] / w.out[1], o / w.out[2] % w.out[1], o % w.out[2]}
		in = in[:0]
		for k0 := range w.kernel[0] {
			i0 := at[0]*w.strides[0] - w.before[0] + k0*w.dilations[0]
			if i0 < 0 || i0 >= w.in[0] {
				continue
			}
			for k1 := range w.kernel[1] {
				i1 := at[1]*w.strides[1] - w.before[1] + k1*w.dilations[1]
				if i1 < 0 || i1 >= w.in[1] {
					continue
				}
				for k2 := range w.kernel[2] {
					if i2 := at[2]*w.strides[2] - w.before[2] + k2*w.dilations[2]; i2 >= 0 && i2 < w.in[2] {
						in = append(in, (i0*w.in[1]+i1)*w.in[2]+i2)
					}
				}
			}
		}
		f(o, in)
	}
}

// counted is the number of taps of output o that lie in the input with its padding.
func (w *window3) counted(o int) int {
	n := 1
	for i, at := range [3]int{o / w.out[2] / w.out[1], o / w.out[2] % w.out[1], o % w.out[2]} {
		from := at*w.strides[i] - w.before[i]
		n *= min(w.kernel[i], (w.in[i]+w.after[i]-from-1)/w.dilations[i]+1)
	}
	return n
}

// pooled runs f on each output of each image, whose elements are image and whose first output is out[0].
func (c *call) pooled(w Window, f func(w *window3, image []float64, channel int, o int, in []int)) func(x []float64) {
	d := c.dims(0)
	over := w.over3(d[2:])
	return func(x []float64) {
		each := product(d[2:])
		over.taps(func(o int, in []int) {
			for i := range d[0] * d[1] {
				f(&over, x[i*each:(i+1)*each], i, o, in)
			}
		})
	}
}

func (c *call) pool(f func(w *window3, image []float64, o int, in []int) float64) {
	w := c.poolWindow()
	d := c.dims(0)
	c.shaped(0, append([]int{d[0], d[1]}, w.Out...)...)
	c.onFloats(func(in [][]float64) []float64 {
		y, each := make([]float64, product(c.out[0].Shape)), product(w.Out)
		c.pooled(w, func(w *window3, image []float64, channel, o int, in []int) {
			y[channel*each+o] = f(w, image, o, in)
		})(in[0])
		return y
	})
}

func averagePool(c *call) {
	padding := c.flag("count_include_pad", false)
	c.pool(func(w *window3, image []float64, o int, in []int) float64 {
		total, n := 0.0, len(in)
		for _, i := range in {
			total += image[i]
		}
		if padding {
			n = w.counted(o)
		}
		return total / float64(max(n, 1))
	})
}

// norm is an attribute p.
func (c *call) norm() int {
	p := c.int("p", 2)
	if p < 1 || p > 64 {
		c.fail("attribute p is %d", p)
	}
	return p
}

// norm is that of order p.
func norm(p int) func([]float64) float64 {
	return func(x []float64) float64 {
		total := 0.0
		for _, v := range x {
			switch p {
			case 1:
				total += math.Abs(v)
			case 2:
				total += v * v
			default:
				total += math.Pow(math.Abs(v), float64(p))
			}
		}
		switch p {
		case 1:
			return total
		case 2:
			return math.Sqrt(total)
		}
		return math.Pow(total, 1/float64(p))
	}
}

func lpPool(c *call) {
	of := norm(c.norm())
	var buffer []float64
	c.pool(func(_ *window3, image []float64, _ int, in []int) float64 {
		buffer = buffer[:0]
		for _, i := range in {
			buffer = append(buffer, image[i])
		}
		return of(buffer)
	})
}

func maxPool(c *call) {
	w := c.poolWindow()
	d := c.dims(0)
	columns := c.flag("storage_order", false)
	c.typed(1, engine.Int64)
	for i := range c.out {
		c.shaped(i, append([]int{d[0], d[1]}, w.Out...)...)
	}
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		y, each, space := make([]float64, product(c.out[0].Shape)), product(w.Out), product(d[2:])
		index := make([]int64, len(y))
		c.pooled(w, func(w *window3, image []float64, channel, o int, in []int) {
			best, at := math.Inf(-1), 0
			for k, i := range in {
				if v := image[i]; k == 0 || v > best || v != v {
					best, at = v, i
				}
			}
			if columns {
				at = w.byColumn(at)
			}
			y[channel*each+o], index[channel*each+o] = best, int64(channel*space+at)
		})(in[0].Floats())
		out := one(c.floats(0, y))
		if len(c.out) > 1 {
			out = append(out, graph.FromInts(engine.Int64, c.out[1].Shape, index))
		}
		return out
	}
}

// byColumn is the number of an input when the last dimension is counted last.
func (w *window3) byColumn(i int) int {
	return (i/w.in[2]/w.in[1]*w.in[2]+i%w.in[2])*w.in[1] + i/w.in[2]%w.in[1]
}

// maxUnpool puts elements where the indices of a MaxPool say, and 0 elsewhere.
func maxUnpool(c *call) {
	c.elements(1, 1<<engine.Int64)
	d := c.ranked(0, 3, 5)
	c.expect(1, d...)
	kernel, ok := c.list("kernel_shape")
	if !ok || len(kernel) != len(d)-2 {
		c.fail("attribute kernel_shape is %v, for the input %v", kernel, d)
	}
	w := c.window(kernel)
	least := append([]int{d[0], d[1]}, w.Out...)
	for i, n := range d[2:] {
		if least[i+2] = -1; n >= 0 {
			least[i+2] = (n-1)*w.Strides[i] + w.Kernel[i] - w.Before[i] - w.After[i]
		}
	}
	shape, ok := least, true
	if c.has(2) {
		if shape, ok = c.ints(2); !ok {
			shape = filled(len(d), -1)
		} else if len(shape) != len(d) || !known(shape) {
			c.fail("the output's shape is %v", shape)
		}
	}
	c.shaped(0, shape...)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		y := make([]float64, product(shape))
		x := in[0].Floats()
		for i, k := range in[1].Ints() {
			at := c.place(k, product(least))
			if to := coordinates(at, least); inside(to, shape) {
				y[offset(to, strides(shape))] = x[i]
			}
		}
		return one(c.floats(0, y))
	}
}

// coordinates of element i of a dense tensor.
func coordinates(i int, shape []int) []int {
	out := make([]int, len(shape))
	for k := len(shape) - 1; k >= 0; k-- {
		out[k] = i % shape[k]
		i /= shape[k]
	}
	return out
}

func inside(at, shape []int) bool {
	for i, k := range at {
		if k >= shape[i] {
			return false
		}
	}
	return true
}

func offset(at, stride []int) int {
	n := 0
	for i, k := range at {
		n += k * stride[i]
	}
	return n
}

func largest(x []float64) float64 {
	best := math.Inf(-1)
	for _, v := range x {
		best = max(best, v)
	}
	return best
}

func average(x []float64) float64 {
	total := 0.0
	for _, v := range x {
		total += v
	}
	return total / float64(len(x))
}

func globalPool(of func(*call) func([]float64) float64) func(*call) {
	return func(c *call) {
		d := c.ranked(0, 2, math.MaxInt)
		f := of(c)
		c.shaped(0, append([]int{d[0], d[1]}, filled(len(d)-2, 1)...)...)
		c.onFloats(func(in [][]float64) []float64 {
			y, each := make([]float64, d[0]*d[1]), product(d[2:])
			for i := range y {
				y[i] = f(in[0][i*each : (i+1)*each])
			}
			return y
		})
	}
}
