package vjp

import (
	"fmt"
	"math"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// reductionGrad is the Grad of a reduction, by the gradient of x given y and its gradient, both with the reduced
// dimensions kept as 1.
func reductionGrad(f func(w writer, axes []int64, x, y, g *value) *value) Grad {
	return func(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
		w, x, in := writer{b, n}, n.In[0], make([]*value, len(n.In))
		axes, err := w.reducedAxes()
		if err != nil {
			return nil, err
		}
		if axes == nil {
			in[0] = out[0]
			return in, nil
		}
		shape := append([]int{}, x.Shape...)
		for _, a := range axes {
			shape[a] = 1
		}
		in[0] = w.expand(f(w, axes, x, w.reshape(n.Out[0], shape), w.reshape(out[0], shape)), x.Shape)
		return in, nil
	}
}

// reducedAxes are the dimensions that the node reduces, from 0, or nil if it passes its input on as it is.
func (w writer) reducedAxes() ([]int64, error) {
	rank := int64(len(w.n.In[0].Shape))
	axes, err := w.constantIntegers(1)
	if err != nil {
		return nil, err
	}
	if len(axes) == 0 {
		if graph.Attr(w.n, "noop_with_empty_axes", int64(0)) != 0 && rank > 0 {
			return nil, nil
		}
		axes = numbersBelow(int(rank))
	}
	out := make([]int64, 0, rank)
	for _, a := range axes {
		if a < -rank || a >= rank {
			return nil, fmt.Errorf("axis %d of %d dimensions", a, rank)
		}
		out = append(out, (a+rank)%rank)
	}
	return out, nil
}

// reducedElements is how many elements become one.
func reducedElements(x *value, axes []int64) float64 {
	n := 1
	for _, a := range axes {
		n *= x.Shape[a]
	}
	return float64(n)
}

// Reductions. Of equal extremes each gets an equal part.
var (
	ReduceSum  = reductionGrad(func(_ writer, _ []int64, _, _, g *value) *value { return g })
	ReduceMean = reductionGrad(func(w writer, axes []int64, x, _, g *value) *value {
		return w.timesNumber(g, 1/reducedElements(x, axes))
	})
	ReduceExtreme = reductionGrad(func(w writer, axes []int64, x, y, g *value) *value {
		one := w.number(x, 1)
		is := w.selectWhere(w.Op("Equal", nil, x, y), one, w.number(x, 0))
		return w.mul(is, w.div(g, w.reduceAxes("ReduceSum", is, axes)))
	})
	ReduceL1 = reductionGrad(func(w writer, _ []int64, x, _, g *value) *value { return w.mul(g, w.applyUnary("Sign", x)) })
	ReduceL2 = reductionGrad(func(w writer, _ []int64, x, y, g *value) *value {
		zero := w.number(y, 0)
		return w.mul(x, w.selectWhere(w.less(zero, y), w.div(g, y), zero))
	})
	ReduceSumSquare = reductionGrad(func(w writer, _ []int64, x, _, g *value) *value { return w.mul(x, w.timesNumber(g, 2)) })
	ReduceLogSum    = reductionGrad(func(w writer, _ []int64, _, y, g *value) *value {
		return w.mul(g, w.applyUnary("Exp", w.applyUnary("Neg", y)))
	})
	ReduceLogSumExp = reductionGrad(func(w writer, _ []int64, x, y, g *value) *value {
		return w.mul(g, w.applyUnary("Exp", w.sub(x, y)))
	})
	ReduceProd = reductionGrad(reduceProd)
)

// reduceProd is the gradient of a product: for each element the product of the others. With one element of 0
// only that one's is not 0, with more none.
func reduceProd(w writer, axes []int64, x, _, g *value) *value {
	zero, one := w.number(x, 0), w.number(x, 1)
	isZero := w.Op("Equal", nil, x, zero)
	zeros := w.reduceAxes("ReduceSum", w.selectWhere(isZero, one, zero), axes)
	others := w.selectWhere(isZero, one, x)
	product := w.mul(g, w.reduceAxes("ReduceProd", others, axes))
	ifNone := w.selectWhere(w.less(zeros, one), product, zero)
	ifOne := w.selectWhere(w.Op("Equal", nil, zeros, one), product, zero)
	return w.selectWhere(isZero, ifOne, w.div(ifNone, others))
}

// CumSum gives each element the sum of the gradients from it on.
func CumSum(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	reverse := 1 - graph.Attr(n, "reverse", int64(0))
	a := attrs{"exclusive": graph.Attr(n, "exclusive", int64(0)), "reverse": reverse}
	return []*value{b.Op("CumSum", a, out[0], n.In[1]), nil}, nil
}

// GlobalAveragePool is the mean over all spatial dimensions.
var GlobalAveragePool = unaryGrad(func(w writer, x, _, g *value) *value {
	return w.expand(w.timesNumber(g, 1/reducedElements(x, spatialAxes(x))), x.Shape)
})

// spatialAxes are the dimensions after the first two.
func spatialAxes(x *value) []int64 {
	return numbersBelow(len(x.Shape))[2:]
}

// GlobalLpPool is the p-norm over all spatial dimensions.
var GlobalLpPool = unaryGrad(func(w writer, x, y, g *value) *value {
	p := float64(graph.Attr(w.n, "p", int64(2)))
	return w.mul(w.powerSlope(x, p), w.mul(g, w.normFactor(y, p)))
})

// powerSlope is sign(x) |x|^(p-1).
func (w writer) powerSlope(x *value, p float64) *value {
	switch p {
	case 1:
		return w.applyUnary("Sign", x)
	case 2:
		return x
	}
	return w.mul(w.applyUnary("Sign", x), w.Op("Pow", nil, w.applyUnary("Abs", x), w.number(x, p-1)))
}

// normFactor is y^(1-p), or 0 where the norm y is 0.
func (w writer) normFactor(y *value, p float64) *value {
	zero := w.number(y, 0)
	return w.selectWhere(w.less(zero, y), w.Op("Pow", nil, y, w.number(y, 1-p)), zero)
}

// LpNormalization divides by the p-norm along an axis, p 1 or 2.
var LpNormalization = unaryGrad(func(w writer, x, y, g *value) *value {
	axes := []int64{int64(axisAttribute(w.n, -1, len(x.Shape)))}
	along := w.reduceAxes("ReduceSum", w.mul(g, y), axes)
	if graph.Attr(w.n, "p", int64(2)) == 1 {
		return w.div(w.sub(g, w.mul(w.applyUnary("Sign", x), along)), w.reduceAxes("ReduceL1", x, axes))
	}
	return w.div(w.sub(g, w.mul(y, along)), w.reduceAxes("ReduceL2", x, axes))
})

// normalisationGrad is the gradient of (x - mean) / sqrt(variance + epsilon), both along axes, given that of the result.
func (w writer) normalisationGrad(x, g *value, axes []int64, epsilon float64) *value {
	c := w.sub(x, w.reduceAxes("ReduceMean", x, axes))
	r := w.applyUnary("Reciprocal", w.applyUnary("Sqrt", w.addNumber(w.reduceAxes("ReduceMean", w.square(c), axes), epsilon)))
	y := w.mul(c, r)
	centred := w.sub(g, w.reduceAxes("ReduceMean", g, axes))
	return w.mul(r, w.sub(centred, w.mul(y, w.reduceAxes("ReduceMean", w.mul(g, y), axes))))
}

// epsilonAttribute is what is added to a variance. ONNX's default is a float32.
func epsilonAttribute(n *graph.Node) float64 { return graph.Attr(n, "epsilon", float64(float32(1e-5))) }

// InstanceNormalization normalises over the spatial dimensions.
var InstanceNormalization = unaryGrad(func(w writer, x, _, g *value) *value {
	return w.normalisationGrad(x, w.mul(g, w.perChannel(w.n.In[1], x)), spatialAxes(x), epsilonAttribute(w.n))
})

// perChannel is a vector of x's channels in a shape that broadcasts to x's.
func (w writer) perChannel(v, x *value) *value {
	shape := make([]int, len(x.Shape)-1)
	for i := range shape {
		shape[i] = 1
	}
	shape[0] = x.Shape[1]
	return w.reshape(v, shape)
}

// MeanVarianceNormalization normalises over given dimensions.
var MeanVarianceNormalization = unaryGrad(func(w writer, x, _, g *value) *value {
	axes := graph.Attr(w.n, "axes", []int64{0, 2, 3})
	return w.normalisationGrad(x, g, axes, 0)
})

// LayerNormalization normalises over the dimensions from an axis on. Its further results give no gradient.
func LayerNormalization(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	w, x, in := writer{b, n}, n.In[0], make([]*value, len(n.In))
	if out[0] == nil {
		return nil, fmt.Errorf("the outputs Mean and InvStdDev have no gradient")
	}
	axes := numbersBelow(len(x.Shape))[axisAttribute(n, -1, len(x.Shape)):]
	in[0] = w.normalisationGrad(x, w.mul(out[0], n.In[1]), axes, epsilonAttribute(n))
	return in, nil
}

// GroupNormalization normalises over groups of channels and the spatial dimensions.
var GroupNormalization = unaryGrad(func(w writer, x, _, g *value) *value {
	groups := int(graph.Attr(w.n, "num_groups", int64(1)))
	grouped := []int{x.Shape[0], groups, graph.Elements(x.Shape[1:]) / max(groups, 1)}
	g = w.mul(g, w.perChannel(w.n.In[1], x))
	d := w.normalisationGrad(w.reshape(x, grouped), w.reshape(g, grouped), []int64{2}, epsilonAttribute(w.n))
	return w.reshape(d, x.Shape)
})

// BatchNormalization, by statistics that are given, scales. They get no gradient; its own scale and shift do.
func BatchNormalization(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	w, x, in := writer{b, n}, n.In[0], make([]*value, len(n.In))
	if graph.Attr(n, "training_mode", int64(0)) != 0 {
		return nil, fmt.Errorf("its training mode has no gradient")
	}
	scale, factor := n.In[1], w.inverseDeviation(n.In[4])
	if w.wantsGrad(1) {
		normal := w.mul(w.sub(x, w.perChannel(n.In[3], x)), w.perChannel(factor, x))
		in[1] = w.channelSum(w.mul(out[0], normal))
	}
	if w.wantsGrad(2) {
		in[2] = w.channelSum(out[0])
	}
	in[0] = w.mul(out[0], w.perChannel(w.mulConstants(scale, factor), x))
	return in, nil
}

// inverseDeviation is 1 / sqrt(variance + epsilon).
func (w writer) inverseDeviation(variance *value) *value {
	if variance.Const == nil {
		return w.applyUnary("Reciprocal", w.applyUnary("Sqrt", w.addNumber(variance, epsilonAttribute(w.n))))
	}
	factors := variance.Const.Floats()
	for i, v := range factors {
		factors[i] = 1 / math.Sqrt(v+epsilonAttribute(w.n))
	}
	return w.Const("deviations", graph.FromFloats(variance.Type, variance.Shape, factors))
}

// mulConstants is x times y, a constant if both are.
func (w writer) mulConstants(x, y *value) *value {
	if x.Const == nil || y.Const == nil {
		return w.mul(x, y)
	}
	product, factors := x.Const.Floats(), y.Const.Floats()
	for i := range product {
		product[i] *= factors[i]
	}
	return w.Const("product", graph.FromFloats(x.Type, x.Shape, product))
}

// LRN divides by a power of the mean square over neighbouring channels: y = x s^-beta, where
// s = bias + alpha mean(x^2).
var LRN = unaryGrad(func(w writer, x, y, g *value) *value {
	size, alpha := graph.Attr(w.n, "size", int64(1)), graph.Attr(w.n, "alpha", float64(float32(1e-4)))
	beta, bias := graph.Attr(w.n, "beta", 0.75), graph.Attr(w.n, "bias", 1.0)
	before := (size - 1) / 2
	after := size - 1 - before
	s := w.addNumber(w.timesNumber(w.channelMean(w.square(x), size, before, after), alpha), bias)
	// The channels that have c in their window are those of a window that is turned round.
	inverse := w.channelMean(w.div(w.mul(g, y), s), size, after, before)
	direct := w.mul(g, w.Op("Pow", nil, s, w.number(s, -beta)))
	return w.sub(direct, w.mul(x, w.timesNumber(inverse, 2*alpha*beta)))
})

// channelMean is the mean over a window of channels, those outside counting as 0.
func (w writer) channelMean(x *value, size, before, after int64) *value {
	whole := w.n.In[0].Shape
	shape := []int{whole[0], 1, whole[1], graph.Elements(whole[2:])}
	mean := w.Op("AveragePool", attrs{
		"kernel_shape": []int64{size, 1}, "pads": []int64{before, 0, after, 0}, "count_include_pad": int64(1),
	}, w.reshape(x, shape))
	return w.reshape(mean, whole)
}
