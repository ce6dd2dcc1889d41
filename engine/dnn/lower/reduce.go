package lower

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	k "github.com/prefillonly/prefillonly/kernels"
)

// reduceLowerings are those of nodes that sum, and of normalisations.
func reduceLowerings() map[string]func(t *translator, n *graph.Node) *Value {
	table := map[string]func(t *translator, n *graph.Node) *Value{
		"GlobalAveragePool":     func(t *translator, n *graph.Node) *Value { return globalPool(t, n, k.Sum) },
		"GlobalMaxPool":         func(t *translator, n *graph.Node) *Value { return globalPool(t, n, k.Largest) },
		"Softmax":               softmax,
		"LogSoftmax":            softmax,
		"LayerNormalization":    layerNormalization,
		"InstanceNormalization": instanceNormalization,
		"GroupNormalization":    groupNormalization,
		"LpNormalization":       lpNormalization,
		"LRN":                   lrn,
	}
	for op, r := range reductions {
		table[op] = func(t *translator, n *graph.Node) *Value { return reduce(t, n, r) }
	}
	return table
}

// reduction is what is done before and after elements become one; nil: nothing.
type reduction struct {
	before func(c *programBuilder, x int) int
	how    k.Reduction
	after  func(c *programBuilder, x, count int) int
}

var reductions = map[string]reduction{
	"ReduceSum":       {how: k.Sum},
	"ReduceMax":       {how: k.Largest},
	"ReduceMin":       {how: k.Smallest},
	"ReduceProd":      {how: k.Product},
	"ReduceMean":      {how: k.Sum, after: func(c *programBuilder, x, count int) int { return c.Op(k.Div, x, c.Constant(float64(count))) }},
	"ReduceL1":        {before: func(c *programBuilder, x int) int { return c.Op(k.Abs, x) }, how: k.Sum},
	"ReduceSumSquare": {before: square, how: k.Sum},
	"ReduceL2":        {before: square, how: k.Sum, after: func(c *programBuilder, x, _ int) int { return c.Op(k.Sqrt, x) }},
	"ReduceLogSum":    {how: k.Sum, after: func(c *programBuilder, x, _ int) int { return c.Op(k.Log, x) }},
}

func square(c *programBuilder, x int) int { return c.Op(k.Mul, x, x) }

func reduce(t *translator, n *graph.Node, r reduction) *Value {
	x := t.translatedValue(n.In[0])
	axes, known := constantInts(n, 1)
	if n.Input(1) != nil && !known || x.Const != nil {
		return nil
	}
	if len(axes) == 0 {
		if attrInt(n, "noop_with_empty_axes", 0) != 0 {
			return nil
		}
		axes = intRange(0, len(x.Shape))
	}
	return t.reshape(t.reduceAxes(x, r, axes), n.Out[0].Shape...)
}

// intRange is from, from+1, ... up to to, exclusive.
func intRange(from, to int) (list []int) {
	for i := from; i < to; i++ {
		list = append(list, i)
	}
	return list
}

// reduceAxes has 1 in place of the axes.
func (t *translator) reduceAxes(x *Value, r reduction, axes []int) *Value {
	shape, count := slices.Clone(x.Shape), 1
	for _, a := range axes {
		shape[axis(a, len(shape))] = 1
	}
	count = graph.Elements(x.Shape) / graph.Elements(shape)
	if r.before != nil {
		x = t.addElementwise(x.Shape, []*Value{x}, func(c *programBuilder, in []int) int { return r.before(c, in[0]) })
	}
	if count > 1 {
		x = t.addOp(&Reduce{How: r.how}, x.Type, shape, x)
	}
	if r.after != nil {
		x = t.addElementwise(shape, []*Value{x}, func(c *programBuilder, in []int) int { return r.after(c, in[0], count) })
	}
	return x
}

func globalPool(t *translator, n *graph.Node, how k.Reduction) *Value {
	x := t.translatedValue(n.In[0])
	r := reduction{how: how}
	if how == k.Sum {
		r = reductions["ReduceMean"]
	}
	return t.reduceAxes(x, r, intRange(2, len(x.Shape)))
}

func softmax(t *translator, n *graph.Node) *Value {
	x := t.translatedValue(n.In[0])
	along := []int{attrInt(n, "axis", -1)}
	most := t.reduceAxes(x, reduction{how: k.Largest}, along)
	powers := t.addElementwise(x.Shape, []*Value{x, most}, func(c *programBuilder, in []int) int {
		return c.Op(k.Exp, c.Op(k.Sub, in[0], in[1]))
	})
	sum := t.reduceAxes(powers, reduction{how: k.Sum}, along)
	if n.Op == "Softmax" {
		return t.addElementwise(x.Shape, []*Value{powers, sum}, func(c *programBuilder, in []int) int { return c.Op(k.Div, in[0], in[1]) })
	}
	return t.addElementwise(x.Shape, []*Value{x, most, sum}, func(c *programBuilder, in []int) int {
		return c.Op(k.Sub, c.Op(k.Sub, in[0], in[1]), c.Op(k.Log, in[2]))
	})
}

// normalizeAxes is x less its mean over axes, in units of its deviation, times scale plus shift, which may be nil.
func (t *translator) normalizeAxes(x *Value, axes []int, epsilon float64, scale, shift *Value) *Value {
	mean := t.reduceAxes(x, reductions["ReduceMean"], axes)
	squares := t.addElementwise(x.Shape, []*Value{x, mean}, func(c *programBuilder, in []int) int { return square(c, c.Op(k.Sub, in[0], in[1])) })
	variance := t.reduceAxes(squares, reduction{how: k.Sum}, axes)
	count := float64(graph.Elements(x.Shape) / graph.Elements(variance.Shape))
	factor := t.addElementwise(variance.Shape, []*Value{variance}, func(c *programBuilder, in []int) int {
		spread := c.Op(k.Sqrt, c.Op(k.Add, c.Op(k.Div, in[0], c.Constant(count)), c.Constant(epsilon)))
		return c.Op(k.Div, c.Constant(1), spread)
	})
	return t.addElementwise(x.Shape, []*Value{x, mean, factor, scale, shift}, func(c *programBuilder, in []int) int {
		y := c.Op(k.Mul, c.Op(k.Sub, in[0], in[1]), in[2])
		if in[3] >= 0 {
			y = c.Op(k.Mul, y, in[3])
		}
		if in[4] >= 0 {
			y = c.Op(k.Add, y, in[4])
		}
		return y
	})
}

func layerNormalization(t *translator, n *graph.Node) *Value {
	x := t.translatedValue(n.In[0])
	from := axis(attrInt(n, "axis", -1), len(x.Shape))
	return t.normalizeAxes(x, intRange(from, len(x.Shape)), attrFloat(n, "epsilon", 1e-5), t.translatedValue(n.Input(1)), t.translatedValue(n.Input(2)))
}

func instanceNormalization(t *translator, n *graph.Node) *Value {
	x := t.translatedValue(n.In[0])
	channels := onesBut(len(x.Shape), 1, x.Shape[1])
	scale, shift := t.reshape(t.translatedValue(n.In[1]), channels...), t.reshape(t.translatedValue(n.In[2]), channels...)
	return t.normalizeAxes(x, intRange(2, len(x.Shape)), attrFloat(n, "epsilon", 1e-5), scale, shift)
}

// groupNormalization divides the channels into groups by a dimension more.
func groupNormalization(t *translator, n *graph.Node) *Value {
	x, groups := t.translatedValue(n.In[0]), attrInt(n, "num_groups", 1)
	apart := append([]int{x.Shape[0], groups, x.Shape[1] / groups}, x.Shape[2:]...)
	if len(apart) > k.MaxDims {
		return nil
	}
	channels := onesBut(len(apart), 1, groups)
	channels[2] = x.Shape[1] / groups
	scale, shift := t.reshape(t.translatedValue(n.In[1]), channels...), t.reshape(t.translatedValue(n.In[2]), channels...)
	y := t.normalizeAxes(t.reshape(x, apart...), intRange(2, len(apart)), attrFloat(n, "epsilon", 1e-5), scale, shift)
	return t.reshape(y, x.Shape...)
}

func lpNormalization(t *translator, n *graph.Node) *Value {
	x, r := t.translatedValue(n.In[0]), reductions["ReduceL2"]
	if attrInt(n, "p", 2) == 1 {
		r = reductions["ReduceL1"]
	}
	norm := t.reduceAxes(x, r, []int{attrInt(n, "axis", -1)})
	return t.addElementwise(x.Shape, []*Value{x, norm}, func(c *programBuilder, in []int) int { return c.Op(k.Div, in[0], in[1]) })
}

// lrn sums squares of neighbouring channels by taps.
func lrn(t *translator, n *graph.Node) *Value {
	x, size := t.translatedValue(n.In[0]), attrInt(n, "size", 1)
	squares := t.addElementwise(x.Shape, []*Value{x}, func(c *programBuilder, in []int) int { return square(c, in[0]) })
	channels := x.Shape[1]
	sums := t.interpolate(squares, 1, tapsOf(channels, func(i int) (at []int, weights []float64) {
		for j := max(0, i-(size-1)/2); j < min(channels, i+size/2+1); j++ {
			at, weights = append(at, j), append(weights, 1)
		}
		return at, weights
	}))
	return t.addElementwise(x.Shape, []*Value{x, sums}, func(c *programBuilder, in []int) int {
		part := c.Op(k.Mul, in[1], c.Constant(attrFloat(n, "alpha", 1e-4)/float64(size)))
		base := c.Op(k.Add, part, c.Constant(attrFloat(n, "bias", 1)))
		return c.Op(k.Div, in[0], c.Op(k.Pow, base, c.Constant(attrFloat(n, "beta", 0.75))))
	})
}
