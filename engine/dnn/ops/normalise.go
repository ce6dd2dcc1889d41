package ops

import (
	"math"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// normalisations are operations that scale elements by what others are.
var normalisations = map[string]definition{
	"BatchNormalization":        {batchNormalization, floats, 5, 5, 3},
	"InstanceNormalization":     {instanceNormalization, floats, 3, 3, 1},
	"LayerNormalization":        {layerNormalization, floats, 2, 3, 3},
	"GroupNormalization":        {groupNormalization, floats, 3, 3, 1},
	"MeanVarianceNormalization": {meanVarianceNormalization, floats, 1, 1, 1},
	"LpNormalization":           {lpNormalization, floats, 1, 1, 1},
	"LRN":                       {localResponseNormalization, floats, 1, 1, 1},
	"Softmax":                   {alongAxis(softmax), floats, 1, 1, 1},
	"LogSoftmax":                {alongAxis(logSoftmax), floats, 1, 1, 1},
	"Hardmax":                   {alongAxis(hardmax), floats, 1, 1, 1},
}

// perChannel checks inputs that have an element for each channel of input 0.
func (c *call) perChannel(inputs ...int) []int {
	d := c.ranked(0, 2, math.MaxInt)
	for _, i := range inputs {
		c.elements(i, floats)
		c.expect(i, d[1])
	}
	return d
}

func batchNormalization(c *call) {
	if c.flag("training_mode", false) || len(c.out) > 1 {
		c.fail("it is of training, and only inference is done")
	}
	epsilon := c.float("epsilon", 1e-5)
	d := c.perChannel(1, 2, 3, 4)
	c.shaped(0, d...)
	c.onFloats(func(in [][]float64) []float64 {
		x, each := in[0], product(d[2:])
		for i := range x {
			k := i / each % d[1]
			x[i] = (x[i]-in[3][k])/math.Sqrt(in[4][k]+epsilon)*in[1][k] + in[2][k]
		}
		return x
	})
}

// standardise makes the mean 0 and the variance 1.
func standardise(x []float64, epsilon float64) (mean, invDeviation float64) {
	mean = average(x)
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

// groups standardises each of the runs of n elements, and scales and shifts by channel.
func (c *call) groups(d []int, n int, epsilon float64) {
	c.shaped(0, d...)
	c.onFloats(func(in [][]float64) []float64 {
		x, each := in[0], product(d[2:])
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

func instanceNormalization(c *call) {
	d := c.perChannel(1, 2)
	c.groups(d, product(d[2:]), c.float("epsilon", 1e-5))
}

func groupNormalization(c *call) {
	d := c.perChannel(1, 2)
	n := c.int("num_groups", 0)
	if n < 1 || d[1] >= 0 && d[1]%n != 0 {
		c.fail("attribute num_groups is %d, of %d channels", n, d[1])
	}
	c.groups(d, product(d[1:])/n, c.float("epsilon", 1e-5))
}

func layerNormalization(c *call) {
	d := c.ranked(0, 1, math.MaxInt)
	axis, epsilon := c.axis("axis", -1, len(d)), c.float("epsilon", 1e-5)
	for i := 1; i < len(c.in); i++ {
		if !c.has(i) {
			continue
		}
		c.elements(i, floats)
		if to, ok := broadcastShape(d, c.dims(i)); !ok || len(to) != len(d) || known(d) && product(to) != product(d) {
			c.fail("input %d has the shape %v, and input 0 %v", i, c.dims(i), d)
		}
	}
	stash, _ := graph.ElementType(int64(c.int("stash_type", 1)))
	c.shaped(0, d...)
	for i := 1; i < len(c.out); i++ {
		c.typed(i, stash)
		c.shaped(i, append(append([]int{}, d[:axis]...), filled(len(d)-axis, 1)...)...)
	}
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		x, n := in[0].Floats(), product(d[axis:])
		var means, deviations []float64
		for from := 0; from < len(x); from += n {
			mean, deviation := standardise(x[from:from+n], epsilon)
			means, deviations = append(means, mean), append(deviations, deviation)
		}
		scale := expanded(in[1], d).Floats()
		for i := range x {
			x[i] *= scale[i]
		}
		if c.has(2) {
			for i, v := range expanded(in[2], d).Floats() {
				x[i] += v
			}
		}
		out := one(c.floats(0, x))
		for i, extra := range [][]float64{means, deviations} {
			if i+1 < len(c.out) {
				out = append(out, c.floats(i+1, resized(extra, product(c.out[i+1].Shape))))
			}
		}
		return out
	}
}

// resized is x with n elements; those that it has not are NaN, the mean of nothing.
func resized(x []float64, n int) []float64 {
	for len(x) < n {
		x = append(x, math.NaN())
	}
	return x
}

func meanVarianceNormalization(c *call) {
	d := c.dims(0)
	axes, ok := c.list("axes")
	if !ok {
		axes = []int{0, 2, 3}
	}
	axes = c.dimensions("attribute axes", axes, len(d))
	c.shaped(0, d...)
	c.onFloats(func(in [][]float64) []float64 {
		lanesOf(d, axes).each(in[0], func(_ int, lane []float64) { standardise(lane, 1e-9) })
		return in[0]
	})
}

// alongAxis replaces the elements along an axis by f of them.
func alongAxis(f func([]float64)) func(*call) {
	return func(c *call) {
		d := c.ranked(0, 1, math.MaxInt)
		axis := c.axis("axis", -1, len(d))
		c.shaped(0, d...)
		c.onFloats(func(in [][]float64) []float64 {
			lanesOf(d, []int{axis}).each(in[0], func(_ int, lane []float64) { f(lane) })
			return in[0]
		})
	}
}

func lpNormalization(c *call) {
	p := c.int("p", 2)
	if p != 1 && p != 2 {
		c.fail("attribute p is %d, not 1 or 2", p)
	}
	alongAxis(func(x []float64) {
		n := norm(p)(x)
		mapped(func(v float64) float64 { return v / n }, x)
	})(c)
}

func localResponseNormalization(c *call) {
	size := c.int("size", 0)
	alpha, beta, bias := c.float("alpha", 1e-4), c.float("beta", 0.75), c.float("bias", 1)
	d := c.ranked(0, 2, math.MaxInt)
	if size < 1 || size > 1<<16 {
		c.fail("attribute size is %d", size)
	}
	c.shaped(0, d...)
	c.onFloats(func(in [][]float64) []float64 {
		squares := make([]float64, d[1])
		lanesOf(d, []int{1}).each(in[0], func(_ int, x []float64) {
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
	most, total := largest(x), 0.0
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
	most, total := largest(x), 0.0
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
		x[i] = truth[float64](i == best)
	}
}
