package combine

import (
	"math"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/op"
)

// Normalisations are operations that scale elements by what others are.
var Normalisations = map[string]op.Definition{
	"BatchNormalization":        op.Define(batchNormalization, op.Floats, 5, 5, 3),
	"InstanceNormalization":     op.Define(instanceNormalization, op.Floats, 3, 3, 1),
	"LayerNormalization":        op.Define(layerNormalization, op.Floats, 2, 3, 3),
	"RMSNormalization":          op.Define(rootMeanSquareNormalization, op.Floats, 2, 2, 1),
	"GroupNormalization":        op.Define(groupNormalization, op.Floats, 3, 3, 1),
	"MeanVarianceNormalization": op.Define(meanVarianceNormalization, op.Floats, 1, 1, 1),
	"LpNormalization":           op.Define(lpNormalization, op.Floats, 1, 1, 1),
	"LRN":                       op.Define(localResponseNormalization, op.Floats, 1, 1, 1),
	"Softmax":                   op.Define(alongAxis(softmax), op.Floats, 1, 1, 1),
	"LogSoftmax":                op.Define(alongAxis(logSoftmax), op.Floats, 1, 1, 1),
	"Hardmax":                   op.Define(alongAxis(hardmax), op.Floats, 1, 1, 1),
}

// perChannel checks inputs that have an element for each channel of input 0.
func perChannel(c *op.Call, inputs ...int) []int {
	d := c.Ranked(0, 2, math.MaxInt)
	for _, i := range inputs {
		c.Elements(i, op.Floats)
		c.Expect(i, d[1])
	}
	return d
}

func batchNormalization(c *op.Call) {
	if c.Flag("training_mode", false) || len(c.Out) > 1 {
		c.Fail("training mode is not supported, want inference")
	}
	epsilon := c.Float("epsilon", 1e-5)
	d := perChannel(c, 1, 2, 3, 4)
	c.Shaped(0, d...)
	c.OnFloats(func(in [][]float64) []float64 {
		x, each := in[0], op.Product(d[2:])
		for i := range x {
			k := i / each % d[1]
			x[i] = (x[i]-in[3][k])/math.Sqrt(in[4][k]+epsilon)*in[1][k] + in[2][k]
		}
		return x
	})
}

// standardise makes the mean 0 and the variance 1.
func standardise(x []float64, epsilon float64) (mean, invDeviation float64) {
	mean = op.Average(x)
	variance := 0.0
	for _, v := range x {
		variance += (v - mean) * (v - mean)
	}
	invDeviation = 1 / math.Sqrt(variance/float64(len(x))+epsilon)
	for i, v := range x {
		x[i] = (v - mean) * invDeviation
	}
	return mean, invDeviation
}

// standardiseGroups standardises each of the runs of n elements, and scales and shifts by channel.
func standardiseGroups(c *op.Call, d []int, n int, epsilon float64) {
	c.Shaped(0, d...)
	c.OnFloats(func(in [][]float64) []float64 {
		x, each := in[0], op.Product(d[2:])
		for from := 0; from < len(x); from += n {
			standardise(x[from:from+n], epsilon)
		}
		for i := range x {
			k := i / each % d[1]
			x[i] = x[i]*in[1][k] + in[2][k]
		}
		return x
	})
}

func instanceNormalization(c *op.Call) {
	d := perChannel(c, 1, 2)
	standardiseGroups(c, d, op.Product(d[2:]), c.Float("epsilon", 1e-5))
}

func groupNormalization(c *op.Call) {
	d := perChannel(c, 1, 2)
	n := c.Int("num_groups", 0)
	if n < 1 || d[1] >= 0 && d[1]%n != 0 {
		c.Fail("invalid attribute num_groups %d: want a divisor of %d channels", n, d[1])
	}
	standardiseGroups(c, d, op.Product(d[1:])/n, c.Float("epsilon", 1e-5))
}

// fromAxis are the shape and the attributes of what normalises over the dimensions from an axis on. Scales and shifts
// broadcast to the shape.
func fromAxis(c *op.Call) (d []int, axis int, epsilon float64) {
	d = c.Ranked(0, 1, math.MaxInt)
	axis, epsilon = c.Axis("axis", -1, len(d)), c.Float("epsilon", 1e-5)
	for i := 1; i < len(c.In); i++ {
		if !c.Has(i) {
			continue
		}
		c.Elements(i, op.Floats)
		if to, ok := op.BroadcastShape(d, c.Dims(i)); !ok || !op.Fits(to, d) {
			c.Fail("input %d has shape %v, input 0 has %v", i, c.Dims(i), d)
		}
	}
	c.Shaped(0, d...)
	return d, axis, epsilon
}

// rootMeanSquareNormalization makes the mean of the squares 1, and scales.
func rootMeanSquareNormalization(c *op.Call) {
	d, axis, epsilon := fromAxis(c)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		x, n := in[0].Floats(), op.Product(d[axis:])
		scale := op.Expanded(in[1], d).Floats()
		for from := 0; from < len(x); from += n {
			root := math.Sqrt(sumSquares(x[from:from+n])/float64(n) + epsilon)
			for i := from; i < from+n; i++ {
				x[i] *= scale[i] / root
			}
		}
		return op.One(c.Floats(0, x))
	}
}

func layerNormalization(c *op.Call) {
	d, axis, epsilon := fromAxis(c)
	stash, _ := graph.ElementType(int64(c.Int("stash_type", 1)))
	for i := 1; i < len(c.Out); i++ {
		c.Typed(i, stash)
		c.Shaped(i, append(append([]int{}, d[:axis]...), op.Filled(len(d)-axis, 1)...)...)
	}
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		x, n := in[0].Floats(), op.Product(d[axis:])
		var means, deviations []float64
		for from := 0; from < len(x); from += n {
			mean, deviation := standardise(x[from:from+n], epsilon)
			means, deviations = append(means, mean), append(deviations, deviation)
		}
		scale := op.Expanded(in[1], d).Floats()
		for i := range x {
			x[i] *= scale[i]
		}
		if c.Has(2) {
			for i, v := range op.Expanded(in[2], d).Floats() {
				x[i] += v
			}
		}
		out := op.One(c.Floats(0, x))
		for i, extra := range [][]float64{means, deviations} {
			if i+1 < len(c.Out) {
				out = append(out, c.Floats(i+1, padWithNaN(extra, op.Product(c.Out[i+1].Shape))))
			}
		}
		return out
	}
}

// padWithNaN is x with n elements; those that it has not are NaN, the mean of nothing.
func padWithNaN(x []float64, n int) []float64 {
	for len(x) < n {
		x = append(x, math.NaN())
	}
	return x
}

func meanVarianceNormalization(c *op.Call) {
	d := c.Dims(0)
	axes, ok := c.List("axes")
	if !ok {
		axes = []int{0, 2, 3}
	}
	axes = c.Dimensions("attribute axes", axes, len(d))
	c.Shaped(0, d...)
	c.OnFloats(func(in [][]float64) []float64 {
		op.LanesOf(d, axes).Each(in[0], func(_ int, lane []float64) { standardise(lane, 1e-9) })
		return in[0]
	})
}

// alongAxis replaces the elements along an axis by f of them.
func alongAxis(f func([]float64)) func(*op.Call) {
	return func(c *op.Call) {
		d := c.Ranked(0, 1, math.MaxInt)
		axis := c.Axis("axis", -1, len(d))
		c.Shaped(0, d...)
		c.OnFloats(func(in [][]float64) []float64 {
			op.LanesOf(d, []int{axis}).Each(in[0], func(_ int, lane []float64) { f(lane) })
			return in[0]
		})
	}
}

func lpNormalization(c *op.Call) {
	p := c.Int("p", 2)
	if p != 1 && p != 2 {
		c.Fail("invalid attribute p %d: want 1 or 2", p)
	}
	alongAxis(func(x []float64) {
		n := op.Norm(p)(x)
		op.Mapped(func(v float64) float64 { return v / n }, x)
	})(c)
}

func localResponseNormalization(c *op.Call) {
	size := c.Int("size", 0)
	alpha, beta, bias := c.Float("alpha", 1e-4), c.Float("beta", 0.75), c.Float("bias", 1)
	d := c.Ranked(0, 2, math.MaxInt)
	if size < 1 || size > 1<<16 {
		c.Fail("invalid attribute size %d: want 1 to %d", size, 1<<16)
	}
	c.Shaped(0, d...)
	c.OnFloats(func(in [][]float64) []float64 {
		squares := make([]float64, d[1])
		op.LanesOf(d, []int{1}).Each(in[0], func(_ int, x []float64) {
			for i, v := range x {
				squares[i] = v * v
			}
			for i := range x {
				total := 0.0
				for _, v := range squares[max(0, i-(size-1)/2):min(len(x), i+size/2+1)] {
					total += v
				}
				x[i] /= math.Pow(bias+alpha/float64(size)*total, beta)
			}
		})
		return in[0]
	})
}

func softmax(x []float64) {
	most, total := op.Largest(x), 0.0
	for i, v := range x {
		x[i] = math.Exp(v - most)
		total += x[i]
	}
	for i := range x {
		x[i] /= total
	}
}

func logSoftmax(x []float64) {
	shift := logSumExp(x)
	for i := range x {
		x[i] -= shift
	}
}

func logSumExp(x []float64) float64 {
	most, total := op.Largest(x), 0.0
	if math.IsInf(most, 0) {
		return most
	}
	for _, v := range x {
		total += math.Exp(v - most)
	}
	return most + math.Log(total)
}

// hardmax is 1 at the first of the largest elements.
func hardmax(x []float64) {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	for i := range x {
		x[i] = op.Truth[float64](i == best)
	}
}
