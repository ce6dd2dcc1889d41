package ops

import (
	"math"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// unaries are operations on each element.
var unaries = map[string]definition{
	"Abs":             {eachNumber(magnitude[float64], magnitude[int64], magnitude[uint64]), numbers, 1, 1, 1},
	"Neg":             {eachNumber(negative[float64], negative[int64], nil), signed | floats, 1, 1, 1},
	"Sign":            {eachNumber(sign[float64], sign[int64], sign[uint64]), numbers, 1, 1, 1},
	"Relu":            {eachNumber(relu, positive[int64], nil), signed | floats, 1, 1, 1},
	"Sqrt":            each(math.Sqrt),
	"Exp":             each(math.Exp),
	"Log":             each(math.Log),
	"Sin":             each(math.Sin),
	"Cos":             each(math.Cos),
	"Tan":             each(math.Tan),
	"Asin":            each(math.Asin),
	"Acos":            each(math.Acos),
	"Atan":            each(math.Atan),
	"Sinh":            each(math.Sinh),
	"Cosh":            each(math.Cosh),
	"Tanh":            each(math.Tanh),
	"Asinh":           each(math.Asinh),
	"Acosh":           each(math.Acosh),
	"Atanh":           each(math.Atanh),
	"Erf":             each(math.Erf),
	"Floor":           each(math.Floor),
	"Ceil":            each(math.Ceil),
	"Round":           each(math.RoundToEven),
	"Reciprocal":      each(func(x float64) float64 { return 1 / x }),
	"Sigmoid":         each(sigmoid),
	"Softplus":        each(softplus),
	"Softsign":        each(softsign),
	"Mish":            each(func(x float64) float64 { return x * math.Tanh(softplus(x)) }),
	"HardSwish":       each(func(x float64) float64 { return x * clamp(x/6+0.5, 0, 1) }),
	"Gelu":            {gelu, floats, 1, 1, 1},
	"LeakyRelu":       {activation("LeakyRelu"), floats, 1, 1, 1},
	"Elu":             {activation("Elu"), floats, 1, 1, 1},
	"Celu":            {activation("Celu"), floats, 1, 1, 1},
	"Selu":            {activation("Selu"), floats, 1, 1, 1},
	"HardSigmoid":     {activation("HardSigmoid"), floats, 1, 1, 1},
	"ThresholdedRelu": {activation("ThresholdedRelu"), floats, 1, 1, 1},
	"Swish":           {activation("Swish"), floats, 1, 1, 1},
	"Shrink":          {shrink, numbers, 1, 1, 1},
	"IsNaN":           {isNaN, floats, 1, 1, 1},
	"IsInf":           {isInf, floats, 1, 1, 1},
	"Not":             {eachInt(func(x int64) int64 { return 1 - x }), booleans, 1, 1, 1},
	"BitwiseNot":      {eachInt(func(x int64) int64 { return ^x }), integers, 1, 1, 1},
	"Identity":        {identity, anything, 1, 1, 1},
	"Dropout":         {dropout, floats, 1, 3, 2},
	"Cast":            {cast, anything, 1, 1, 1},
	"CastLike":        {cast, anything, 2, 2, 1},
}

// number is what elements are computed as: floats as float64, uint64 as it is, and other integers as int64.
type number interface{ float64 | int64 | uint64 }

func magnitude[T number](x T) T {
	if x < 0 {
		return -x
	}
	return x
}

func negative[T number](x T) T { return -x }

// sign of NaN is NaN.
func sign[T number](x T) T {
	switch {
	case x > 0:
		return 1
	case x < 0:
		one := T(1)
		return -one
	}
	return x
}

func positive[T number](x T) T { return max(x, 0) }

func relu(x float64) float64 { return max(x, 0) }

func sigmoid(x float64) float64 {
	if x < 0 {
		e := math.Exp(x)
		return e / (1 + e)
	}
	return 1 / (1 + math.Exp(-x))
}

func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

func clamp(x, least, most float64) float64 { return min(max(x, least), most) }

func softsign(x float64) float64 { return x / (1 + math.Abs(x)) }

// likeInput gives output 0 the shape of input 0.
func (c *call) likeInput() { c.shaped(0, c.dims(0)...) }

func each(f func(float64) float64) definition {
	return definition{eachNumber(f, nil, nil), floats, 1, 1, 1}
}

func eachInt(f func(int64) int64) func(*call) { return eachNumber(nil, f, nil) }

// eachNumber applies f to floats, u to uint64 if it is given, and i to other integers.
func eachNumber(f func(float64) float64, i func(int64) int64, u func(uint64) uint64) func(*call) {
	return func(c *call) {
		c.likeInput()
		c.run = func(in []*graph.Tensor) []*graph.Tensor {
			t := in[0]
			if graph.Floating(t.Type) {
				return one(graph.FromFloats(t.Type, t.Shape, mapped(f, t.Floats())))
			}
			if t.Type == engine.Uint64 && u != nil {
				return one(graph.FromInts(t.Type, t.Shape, converted[int64](mapped(u, converted[uint64](t.Ints())))))
			}
			return one(graph.FromInts(t.Type, t.Shape, mapped(i, t.Ints())))
		}
	}
}

// mapped replaces elements by f of them.
func mapped[T any](f func(T) T, x []T) []T {
	for i, v := range x {
		x[i] = f(v)
	}
	return x
}

func converted[B, A int64 | uint64](x []A) []B {
	out := make([]B, len(x))
	for i, v := range x {
		out[i] = B(v)
	}
	return out
}

// curve is a function of x with parameters, and what these are called and are if not given.
type curve struct {
	f           func(x, alpha, beta float64) float64
	parameters  int
	alpha, beta float64 // NaN: they have to be given
}

// curves are the activations that have parameters, and those that recurrent networks name.
var curves = map[string]curve{
	"Relu":       {f: func(x, _, _ float64) float64 { return relu(x) }},
	"Tanh":       {f: func(x, _, _ float64) float64 { return math.Tanh(x) }},
	"Sigmoid":    {f: func(x, _, _ float64) float64 { return sigmoid(x) }},
	"Softsign":   {f: func(x, _, _ float64) float64 { return softsign(x) }},
	"Softplus":   {f: func(x, _, _ float64) float64 { return softplus(x) }},
	"Affine":     {func(x, a, b float64) float64 { return a*x + b }, 2, math.NaN(), math.NaN()},
	"ScaledTanh": {func(x, a, b float64) float64 { return a * math.Tanh(b*x) }, 2, math.NaN(), math.NaN()},
	"LeakyRelu":  {func(x, a, _ float64) float64 { return leak(x, a) }, 1, 0.01, 0},
	"Elu":        {func(x, a, _ float64) float64 { return max(x, 0) + a*math.Expm1(min(x, 0)) }, 1, 1, 0},
	"Celu":       {func(x, a, _ float64) float64 { return max(x, 0) + min(0, a*math.Expm1(x/a)) }, 1, 1, 0},
	"Selu": {func(x, a, gamma float64) float64 { return gamma * (max(x, 0) + a*math.Expm1(min(x, 0))) }, 2,
		1.67326319217681884765625, 1.05070102214813232421875},
	"Swish":       {func(x, a, _ float64) float64 { return x * sigmoid(a*x) }, 1, 1, 0},
	"HardSigmoid": {func(x, a, b float64) float64 { return clamp(a*x+b, 0, 1) }, 2, 0.2, 0.5},
	"ThresholdedRelu": {func(x, a, _ float64) float64 {
		if x > a {
			return x
		}
		return 0
	}, 1, 1, 0},
}

// activation is a curve with its attributes.
func activation(name string) func(*call) {
	return func(c *call) {
		k := curves[name]
		alpha, beta := c.float("alpha", k.alpha), c.float("beta", k.beta)
		if name == "Selu" {
			beta = c.float("gamma", k.beta)
		}
		eachNumber(func(x float64) float64 { return k.f(x, alpha, beta) }, nil, nil)(c)
	}
}

func gelu(c *call) {
	f := func(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) }
	if c.word("approximate", "none", "tanh") == "tanh" {
		f = func(x float64) float64 { return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))) }
	}
	eachNumber(f, nil, nil)(c)
}

func shrink(c *call) {
	bias, lambda := c.float("bias", 0), c.float("lambd", 0.5)
	c.likeInput()
	c.onFloats(func(in [][]float64) []float64 {
		return mapped(func(x float64) float64 {
			switch {
			case x < -lambda:
				return x + bias
			case x > lambda:
				return x - bias
			}
			return 0
		}, in[0])
	})
}

// test sets output 0 to what f says of each float.
func (c *call) test(f func(float64) bool) {
	c.typed(0, engine.Bool)
	c.likeInput()
	c.onFloats(func(in [][]float64) []float64 {
		return mapped(func(x float64) float64 { return truth[float64](f(x)) }, in[0])
	})
}

func truth[T number](b bool) T {
	if b {
		return 1
	}
	return 0
}

func isNaN(c *call) { c.test(math.IsNaN) }

func isInf(c *call) {
	below, above := c.flag("detect_negative", true), c.flag("detect_positive", true)
	c.test(func(x float64) bool { return below && math.IsInf(x, -1) || above && math.IsInf(x, 1) })
}

func identity(c *call) {
	c.likeInput()
	c.run = func(in []*graph.Tensor) []*graph.Tensor { return in[:1] }
}

// dropout is that of inference: nothing is dropped.
func dropout(c *call) {
	c.typed(1, engine.Bool)
	if c.has(2) {
		if training, ok := c.scalar(2); ok && training != 0 {
			c.fail("it is of training, and only inference is done")
		}
	}
	c.likeInput()
	c.shaped(1, c.dims(0)...)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		out := in[:1:1]
		if len(c.out) > 1 {
			out = append(out, graph.FromInts(engine.Bool, in[0].Shape, filled(in[0].Len(), int64(1))))
		}
		return out
	}
}

func filled[T any](n int, value T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = value
	}
	return out
}

// cast is Cast, and CastLike with its second input.
func cast(c *call) {
	if len(c.in) > 1 {
		c.typed(0, c.elements(1, anything))
	} else {
		c.typed(0, c.dtype("to", 0))
		if c.out[0].Type == 0 {
			c.fail("attribute to is not given")
		}
	}
	c.likeInput()
	c.run = func(in []*graph.Tensor) []*graph.Tensor { return one(retyped(in[0], c.out[0].Type)) }
}

// retyped is t's elements as those of another type.
func retyped(t *graph.Tensor, to engine.DType) *graph.Tensor {
	switch {
	case t.Type == to:
		return t
	case graph.Floating(t.Type) || graph.Floating(to):
		return graph.FromFloats(to, t.Shape, t.Floats())
	}
	return graph.FromInts(to, t.Shape, t.Ints())
}
