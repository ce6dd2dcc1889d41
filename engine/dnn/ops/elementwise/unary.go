// Package elementwise has the operations that compute each element from those at its place in the inputs, which are
// broadcast to one shape.
package elementwise

import (
	"math"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/op"
)

// Unaries are operations on each element.
var Unaries = map[string]op.Definition{
	"Abs":             op.Define(eachNumber(Magnitude[float64], Magnitude[int64], Magnitude[uint64]), op.Numbers, 1, 1, 1),
	"Neg":             op.Define(eachNumber(negative[float64], negative[int64], nil), op.Signed|op.Floats, 1, 1, 1),
	"Sign":            op.Define(eachNumber(sign[float64], sign[int64], sign[uint64]), op.Numbers, 1, 1, 1),
	"Relu":            op.Define(eachNumber(relu, positivePart[int64], nil), op.Signed|op.Floats, 1, 1, 1),
	"Sqrt":            eachFloat(math.Sqrt),
	"Exp":             eachFloat(math.Exp),
	"Log":             eachFloat(math.Log),
	"Sin":             eachFloat(math.Sin),
	"Cos":             eachFloat(math.Cos),
	"Tan":             eachFloat(math.Tan),
	"Asin":            eachFloat(math.Asin),
	"Acos":            eachFloat(math.Acos),
	"Atan":            eachFloat(math.Atan),
	"Sinh":            eachFloat(math.Sinh),
	"Cosh":            eachFloat(math.Cosh),
	"Tanh":            eachFloat(math.Tanh),
	"Asinh":           eachFloat(math.Asinh),
	"Acosh":           eachFloat(math.Acosh),
	"Atanh":           eachFloat(math.Atanh),
	"Erf":             eachFloat(math.Erf),
	"Floor":           eachFloat(math.Floor),
	"Ceil":            eachFloat(math.Ceil),
	"Round":           eachFloat(math.RoundToEven),
	"Reciprocal":      eachFloat(func(x float64) float64 { return 1 / x }),
	"Sigmoid":         eachFloat(sigmoid),
	"Softplus":        eachFloat(softplus),
	"Softsign":        eachFloat(softsign),
	"Mish":            eachFloat(func(x float64) float64 { return x * math.Tanh(softplus(x)) }),
	"HardSwish":       eachFloat(func(x float64) float64 { return x * op.Clamp(x/6+0.5, 0, 1) }),
	"Gelu":            op.Define(gelu, op.Floats, 1, 1, 1),
	"LeakyRelu":       op.Define(activationOp("LeakyRelu"), op.Floats, 1, 1, 1),
	"Elu":             op.Define(activationOp("Elu"), op.Floats, 1, 1, 1),
	"Celu":            op.Define(activationOp("Celu"), op.Floats, 1, 1, 1),
	"Selu":            op.Define(activationOp("Selu"), op.Floats, 1, 1, 1),
	"HardSigmoid":     op.Define(activationOp("HardSigmoid"), op.Floats, 1, 1, 1),
	"ThresholdedRelu": op.Define(activationOp("ThresholdedRelu"), op.Floats, 1, 1, 1),
	"Swish":           op.Define(activationOp("Swish"), op.Floats, 1, 1, 1),
	"Shrink":          op.Define(shrink, op.Numbers, 1, 1, 1),
	"IsNaN":           op.Define(isNaN, op.Floats, 1, 1, 1),
	"IsInf":           op.Define(isInf, op.Floats, 1, 1, 1),
	"Not":             op.Define(eachInt(func(x int64) int64 { return 1 - x }), op.Booleans, 1, 1, 1),
	"BitwiseNot":      op.Define(eachInt(func(x int64) int64 { return ^x }), op.Integers, 1, 1, 1),
	"Identity":        op.Define(identity, op.Anything, 1, 1, 1),
	"Dropout":         op.Define(dropout, op.Floats, 1, 3, 2),
	"Cast":            op.Define(cast, op.Anything, 1, 1, 1),
	"CastLike":        op.Define(cast, op.Anything, 2, 2, 1),
}

// Magnitude is the absolute value.
func Magnitude[T op.Number](x T) T {
	if x < 0 {
		return -x
	}
	return x
}

func negative[T op.Number](x T) T { return -x }

// sign of NaN is NaN.
func sign[T op.Number](x T) T {
	switch {
	case x > 0:
		return 1
	case x < 0:
		one := T(1)
		return -one
	}
	return x
}

func positivePart[T op.Number](x T) T { return max(x, 0) }

func relu(x float64) float64 { return max(x, 0) }

func sigmoid(x float64) float64 {
	if x < 0 {
		e := math.Exp(x)
		return e / (1 + e)
	}
	return 1 / (1 + math.Exp(-x))
}

func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

func softsign(x float64) float64 { return x / (1 + math.Abs(x)) }

// likeInput gives output 0 the shape of input 0.
func likeInput(c *op.Call) { c.Shaped(0, c.Dims(0)...) }

func eachFloat(f func(float64) float64) op.Definition {
	return op.Define(eachNumber(f, nil, nil), op.Floats, 1, 1, 1)
}

func eachInt(f func(int64) int64) func(*op.Call) { return eachNumber(nil, f, nil) }

// eachNumber applies f to floats, u to uint64 if it is given, and i to other integers.
func eachNumber(f func(float64) float64, i func(int64) int64, u func(uint64) uint64) func(*op.Call) {
	return func(c *op.Call) {
		likeInput(c)
		c.Run = func(in []*graph.Tensor) []*graph.Tensor {
			t := in[0]
			if graph.Floating(t.Type) {
				return op.One(graph.FromFloats(t.Type, t.Shape, op.Mapped(f, t.Floats())))
			}
			if t.Type == engine.Uint64 && u != nil {
				return op.One(graph.FromInts(t.Type, t.Shape, op.Converted[int64](op.Mapped(u, op.Converted[uint64](t.Ints())))))
			}
			return op.One(graph.FromInts(t.Type, t.Shape, op.Mapped(i, t.Ints())))
		}
	}
}

// curve is a function of x with parameters, and what these are called and are if not given.
type curve struct {
	F           func(x, alpha, beta float64) float64
	Parameters  int
	Alpha, Beta float64 // NaN: they have to be given
}

// Curves are the activations that have parameters, and those that recurrent networks name.
var Curves = map[string]curve{
	"Relu":       {F: func(x, _, _ float64) float64 { return relu(x) }},
	"Tanh":       {F: func(x, _, _ float64) float64 { return math.Tanh(x) }},
	"Sigmoid":    {F: func(x, _, _ float64) float64 { return sigmoid(x) }},
	"Softsign":   {F: func(x, _, _ float64) float64 { return softsign(x) }},
	"Softplus":   {F: func(x, _, _ float64) float64 { return softplus(x) }},
	"Affine":     {func(x, a, b float64) float64 { return a*x + b }, 2, math.NaN(), math.NaN()},
	"ScaledTanh": {func(x, a, b float64) float64 { return a * math.Tanh(b*x) }, 2, math.NaN(), math.NaN()},
	"LeakyRelu":  {func(x, a, _ float64) float64 { return leakyRelu(x, a) }, 1, 0.01, 0},
	"Elu":        {func(x, a, _ float64) float64 { return max(x, 0) + a*math.Expm1(min(x, 0)) }, 1, 1, 0},
	"Celu":       {func(x, a, _ float64) float64 { return max(x, 0) + min(0, a*math.Expm1(x/a)) }, 1, 1, 0},
	"Selu": {func(x, a, gamma float64) float64 { return gamma * (max(x, 0) + a*math.Expm1(min(x, 0))) }, 2,
		1.67326319217681884765625, 1.05070102214813232421875},
	"Swish":       {func(x, a, _ float64) float64 { return x * sigmoid(a*x) }, 1, 1, 0},
	"HardSigmoid": {func(x, a, b float64) float64 { return op.Clamp(a*x+b, 0, 1) }, 2, 0.2, 0.5},
	"ThresholdedRelu": {func(x, a, _ float64) float64 {
		if x > a {
			return x
		}
		return 0
	}, 1, 1, 0},
}

// activationOp is a curve with its attributes.
func activationOp(name string) func(*op.Call) {
	return func(c *op.Call) {
		k := Curves[name]
		alpha, beta := c.Float("alpha", k.Alpha), c.Float("beta", k.Beta)
		if name == "Selu" {
			beta = c.Float("gamma", k.Beta)
		}
		eachNumber(func(x float64) float64 { return k.F(x, alpha, beta) }, nil, nil)(c)
	}
}

func gelu(c *op.Call) {
	f := func(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) }
	if c.Word("approximate", "none", "tanh") == "tanh" {
		f = func(x float64) float64 { return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))) }
	}
	eachNumber(f, nil, nil)(c)
}

func shrink(c *op.Call) {
	bias, lambda := c.Float("bias", 0), c.Float("lambd", 0.5)
	likeInput(c)
	c.OnFloats(func(in [][]float64) []float64 {
		return op.Mapped(func(x float64) float64 {
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

// testFloats sets output 0 to what f says of each float.
func testFloats(c *op.Call, f func(float64) bool) {
	c.Typed(0, engine.Bool)
	likeInput(c)
	c.OnFloats(func(in [][]float64) []float64 {
		return op.Mapped(func(x float64) float64 { return op.Truth[float64](f(x)) }, in[0])
	})
}

func isNaN(c *op.Call) { testFloats(c, math.IsNaN) }

func isInf(c *op.Call) {
	below, above := c.Flag("detect_negative", true), c.Flag("detect_positive", true)
	testFloats(c, func(x float64) bool { return below && math.IsInf(x, -1) || above && math.IsInf(x, 1) })
}

func identity(c *op.Call) {
	likeInput(c)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor { return in[:1] }
}

// dropout is that of inference: nothing is dropped.
func dropout(c *op.Call) {
	c.Typed(1, engine.Bool)
	if c.Has(2) {
		if training, ok := c.Scalar(2); ok && training != 0 {
			c.Fail("training mode is not supported, want inference")
		}
	}
	likeInput(c)
	c.Shaped(1, c.Dims(0)...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		out := in[:1:1]
		if len(c.Out) > 1 {
			out = append(out, graph.FromInts(engine.Bool, in[0].Shape, op.Filled(in[0].Len(), int64(1))))
		}
		return out
	}
}

// cast is Cast, and CastLike with its second input.
func cast(c *op.Call) {
	if len(c.In) > 1 {
		c.Typed(0, c.Elements(1, op.Anything))
	} else {
		c.Typed(0, c.Dtype("to", 0))
		if c.Out[0].Type == 0 {
			c.Fail("missing attribute to")
		}
	}
	likeInput(c)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor { return op.One(op.Retyped(in[0], c.Out[0].Type)) }
}
