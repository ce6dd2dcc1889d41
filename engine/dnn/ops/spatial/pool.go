package spatial

import (
	"math"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/op"
)

// Pools are operations that make windows of space one element each.
var Pools = map[string]op.Definition{
	"MaxPool":           op.Define(maxPool, op.Floats|1<<engine.Int8|1<<engine.Uint8, 1, 1, 2),
	"AveragePool":       op.Define(averagePool, op.Floats, 1, 1, 1),
	"LpPool":            op.Define(lpPool, op.Floats, 1, 1, 1),
	"MaxUnpool":         op.Define(maxUnpool, op.Floats, 2, 3, 1),
	"GlobalMaxPool":     op.Define(globalPool(func(*op.Call) func([]float64) float64 { return op.Largest }), op.Floats, 1, 1, 1),
	"GlobalAveragePool": op.Define(globalPool(func(*op.Call) func([]float64) float64 { return op.Average }), op.Floats, 1, 1, 1),
	"GlobalLpPool":      op.Define(globalPool(func(c *op.Call) func([]float64) float64 { return op.Norm(normAttribute(c)) }), op.Floats, 1, 1, 1),
}

// PoolWindow is the window of a MaxPool, AveragePool or LpPool.
func PoolWindow(c *op.Call) Window {
	d := c.Ranked(0, 3, 5)
	kernel, ok := c.List("kernel_shape")
	if !ok || len(kernel) != len(d)-2 {
		c.Fail("invalid attribute kernel_shape %v: want a value for each spatial dimension of input %v", kernel, d)
	}
	w := readWindow(c, kernel)
	setPadding(c, &w, d[2:], c.Flag("ceil_mode", false))
	return w
}

// eachOutput calls f with each output of an image and the inputs in its window.
func (w *Window3) eachOutput(f func(out int, in []int)) {
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

// Counted is the number of taps of output o that lie in the input with its padding.
func (w *Window3) Counted(o int) int {
	n := 1
	for i, at := range [3]int{o / w.out[2] / w.out[1], o / w.out[2] % w.out[1], o % w.out[2]} {
		from := at*w.strides[i] - w.before[i]
		n *= min(w.kernel[i], (w.in[i]+w.after[i]-from-1)/w.dilations[i]+1)
	}
	return n
}

// Pooled runs f on each output of each image, whose elements are image and whose first output is out[0].
func Pooled(c *op.Call, w Window, f func(w *Window3, image []float64, channel int, o int, in []int)) func(x []float64) {
	d := c.Dims(0)
	over := w.toWindow3(d[2:])
	return func(x []float64) {
		each := op.Product(d[2:])
		over.eachOutput(func(o int, in []int) {
			for i := range d[0] * d[1] {
				f(&over, x[i*each:(i+1)*each], i, o, in)
			}
		})
	}
}

func poolWindows(c *op.Call, f func(w *Window3, image []float64, o int, in []int) float64) {
	w := PoolWindow(c)
	d := c.Dims(0)
	c.Shaped(0, append([]int{d[0], d[1]}, w.Out...)...)
	c.OnFloats(func(in [][]float64) []float64 {
		y, each := make([]float64, op.Product(c.Out[0].Shape)), op.Product(w.Out)
		Pooled(c, w, func(w *Window3, image []float64, channel, o int, in []int) {
			y[channel*each+o] = f(w, image, o, in)
		})(in[0])
		return y
	})
}

func averagePool(c *op.Call) {
	padding := c.Flag("count_include_pad", false)
	poolWindows(c, func(w *Window3, image []float64, o int, in []int) float64 {
		total, n := 0.0, len(in)
		for _, i := range in {
			total += image[i]
		}
		if padding {
			n = w.Counted(o)
		}
		return total / float64(max(n, 1))
	})
}

// normAttribute is an attribute p.
func normAttribute(c *op.Call) int {
	p := c.Int("p", 2)
	if p < 1 || p > 64 {
		c.Fail("invalid attribute p %d: want 1 to 64", p)
	}
	return p
}

func lpPool(c *op.Call) {
	of := op.Norm(normAttribute(c))
	var buffer []float64
	poolWindows(c, func(_ *Window3, image []float64, _ int, in []int) float64 {
		buffer = buffer[:0]
		for _, i := range in {
			buffer = append(buffer, image[i])
		}
		return of(buffer)
	})
}

func maxPool(c *op.Call) {
	w := PoolWindow(c)
	d := c.Dims(0)
	columns := c.Flag("storage_order", false)
	c.Typed(1, engine.Int64)
	for i := range c.Out {
		c.Shaped(i, append([]int{d[0], d[1]}, w.Out...)...)
	}
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		y, each, space := make([]float64, op.Product(c.Out[0].Shape)), op.Product(w.Out), op.Product(d[2:])
		index := make([]int64, len(y))
		Pooled(c, w, func(w *Window3, image []float64, channel, o int, in []int) {
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
		out := op.One(c.Floats(0, y))
		if len(c.Out) > 1 {
			out = append(out, graph.FromInts(engine.Int64, c.Out[1].Shape, index))
		}
		return out
	}
}

// byColumn is the number of an input when the last dimension is counted last.
func (w *Window3) byColumn(i int) int {
	return (i/w.in[2]/w.in[1]*w.in[2]+i%w.in[2])*w.in[1] + i/w.in[2]%w.in[1]
}

// maxUnpool puts elements where the indices of a MaxPool say, and 0 elsewhere.
func maxUnpool(c *op.Call) {
	c.Elements(1, 1<<engine.Int64)
	d := c.Ranked(0, 3, 5)
	c.Expect(1, d...)
	kernel, ok := c.List("kernel_shape")
	if !ok || len(kernel) != len(d)-2 {
		c.Fail("invalid attribute kernel_shape %v: want a value for each spatial dimension of input %v", kernel, d)
	}
	w := readWindow(c, kernel)
	least := append([]int{d[0], d[1]}, w.Out...)
	for i, n := range d[2:] {
		if least[i+2] = -1; n >= 0 {
			least[i+2] = (n-1)*w.Strides[i] + w.Kernel[i] - w.Before[i] - w.After[i]
		}
	}
	shape, ok := least, true
	if c.Has(2) {
		if shape, ok = c.Ints(2); !ok {
			shape = op.Filled(len(d), -1)
		} else if len(shape) != len(d) || !op.Known(shape) {
			c.Fail("invalid output shape %v: want %d dimensions", shape, len(d))
		}
	}
	c.Shaped(0, shape...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		y := make([]float64, op.Product(shape))
		x := in[0].Floats()
		for i, k := range in[1].Ints() {
			at := c.Place(k, op.Product(least))
			if to := elementCoordinates(at, least); isInside(to, shape) {
				y[strideOffset(to, op.Strides(shape))] = x[i]
			}
		}
		return op.One(c.Floats(0, y))
	}
}

// elementCoordinates of element i of a dense tensor.
func elementCoordinates(i int, shape []int) []int {
	out := make([]int, len(shape))
	for k := len(shape) - 1; k >= 0; k-- {
		out[k] = i % shape[k]
		i /= shape[k]
	}
	return out
}

func isInside(at, shape []int) bool {
	for i, k := range at {
		if k >= shape[i] {
			return false
		}
	}
	return true
}

func strideOffset(at, stride []int) int {
	n := 0
	for i, k := range at {
		n += k * stride[i]
	}
	return n
}

func globalPool(of func(*op.Call) func([]float64) float64) func(*op.Call) {
	return func(c *op.Call) {
		d := c.Ranked(0, 2, math.MaxInt)
		f := of(c)
		c.Shaped(0, append([]int{d[0], d[1]}, op.Filled(len(d)-2, 1)...)...)
		c.OnFloats(func(in [][]float64) []float64 {
			y, each := make([]float64, d[0]*d[1]), op.Product(d[2:])
			for i := range y {
				y[i] = f(in[0][i*each : (i+1)*each])
			}
			return y
		})
	}
}
