package gradient_test

import (
	"math/rand/v2"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

type (
	attrs  = graph.Attrs
	sample = func(rng *rand.Rand) sampled
)

// samplesByOperation are, for each operation, ways to make a node of it.
func samplesByOperation() map[string][]sample {
	all := map[string][]sample{}
	for _, family := range []map[string][]sample{functions, arithmetic, windows, statistics, moves, picks} {
		for op, samples := range family {
			all[op] = samples
		}
	}
	return all
}

// dims is a random shape.
func dims(rng *rand.Rand, rank int) []int {
	out := make([]int, rank)
	for i := range out {
		out[i] = 1 + rng.IntN(4)
	}
	return out
}

// anyShape has up to 4 dimensions.
func anyShape(rng *rand.Rand) []int { return dims(rng, rng.IntN(5)) }

// broadcast is a shape that broadcasts to another, of its rank or less.
func broadcast(rng *rand.Rand, to []int) []int {
	out := slices.Clone(to[rng.IntN(len(to)+1):])
	for i := range out {
		if rng.IntN(3) == 0 {
			out[i] = 1
		}
	}
	return out
}

// unary are nodes of one input with elements between low and high.
func unary(low, high float64, variants ...attrs) []sample {
	if len(variants) == 0 {
		variants = []attrs{nil}
	}
	var out []sample
	for _, a := range variants {
		out = append(out, func(rng *rand.Rand) sampled {
			return sampled{attrs: a, in: []input{between(low, high, anyShape(rng)...)}}
		})
	}
	return out
}

// binary are nodes of two inputs that broadcast, one way or the other, with elements between low and high.
func binary(low, high float64, variants ...attrs) []sample {
	if len(variants) == 0 {
		variants = []attrs{nil}
	}
	var out []sample
	for _, a := range variants {
		out = append(out, func(rng *rand.Rand) sampled {
			shape := anyShape(rng)
			in := []input{between(low, high, shape...), between(low, high, broadcast(rng, shape)...)}
			if rng.IntN(2) == 0 {
				slices.Reverse(in)
			}
			switch rng.IntN(4) {
			case 0:
				in[0] = in[0].kept()
			case 1:
				in[1] = in[1].kept()
			}
			return sampled{attrs: a, in: in}
		})
	}
	return out
}

// variadic are nodes of up to 4 inputs that broadcast.
func variadic() []sample {
	return []sample{func(rng *rand.Rand) sampled {
		shape := anyShape(rng)
		in := []input{random(shape...)}
		for range rng.IntN(4) {
			in = append(in, random(broadcast(rng, shape)...))
		}
		rng.Shuffle(len(in), func(i, j int) { in[i], in[j] = in[j], in[i] })
		if len(in) > 1 && rng.IntN(2) == 0 {
			in[rng.IntN(len(in))].held = true
		}
		return sampled{in: in}
	}}
}

var functions = map[string][]sample{
	"Abs":             unary(-2, 2),
	"Acos":            unary(-.9, .9),
	"Acosh":           unary(1.1, 4),
	"Asin":            unary(-.9, .9),
	"Asinh":           unary(-2, 2),
	"Atan":            unary(-2, 2),
	"Atanh":           unary(-.9, .9),
	"Celu":            unary(-2, 2, nil, attrs{"alpha": 1.7}),
	"Cos":             unary(-2, 2),
	"Cosh":            unary(-2, 2),
	"Elu":             unary(-2, 2, nil, attrs{"alpha": 1.7}),
	"Erf":             unary(-2, 2),
	"Exp":             unary(-2, 2),
	"Gelu":            unary(-2, 2, nil, attrs{"approximate": "tanh"}),
	"HardSigmoid":     unary(-4, 4, nil, attrs{"alpha": .3, "beta": .4}),
	"HardSwish":       unary(-5, 5),
	"Identity":        unary(-2, 2),
	"LeakyRelu":       unary(-2, 2, nil, attrs{"alpha": .3}, attrs{"alpha": -.3}, attrs{"alpha": 0.}),
	"Log":             unary(.2, 4),
	"Mish":            unary(-2, 2),
	"Neg":             unary(-2, 2),
	"Reciprocal":      unary(.2, 4),
	"Relu":            unary(-2, 2),
	"Selu":            unary(-2, 2, nil, attrs{"alpha": 1.3, "gamma": 1.2}),
	"Shrink":          unary(-2, 2, nil, attrs{"lambd": .7, "bias": .3}),
	"Sigmoid":         unary(-2, 2),
	"Sin":             unary(-2, 2),
	"Sinh":            unary(-2, 2),
	"Softplus":        unary(-2, 2),
	"Softsign":        unary(-2, 2),
	"Sqrt":            unary(.2, 4),
	"Swish":           unary(-2, 2, nil, attrs{"alpha": 1.7}),
	"Tan":             unary(-1.2, 1.2),
	"Tanh":            unary(-2, 2),
	"ThresholdedRelu": unary(-2, 2, nil, attrs{"alpha": .5}),
	"Cast":            unary(-2, 2, attrs{"to": int64(11)}),
	"Dropout":         unary(-2, 2),
	"CastLike": {func(rng *rand.Rand) sampled {
		return sampled{in: []input{random(anyShape(rng)...), {constant: graph.Scalar(engine.FP64, 1)}}}
	}},
	"Clip": {
		func(rng *rand.Rand) sampled { return sampled{in: []input{random(anyShape(rng)...)}} },
		func(rng *rand.Rand) sampled {
			return sampled{in: []input{random(anyShape(rng)...), between(-1.1, -.9).kept(), between(.9, 1.1).kept()}}
		},
		func(rng *rand.Rand) sampled {
			return sampled{in: []input{random(3, 4), between(-1.1, -.9), between(.9, 1.1)}}
		},
		func(rng *rand.Rand) sampled {
			return sampled{in: []input{random(anyShape(rng)...), absent, between(.9, 1.1)}}
		},
	},
	"PRelu": {func(rng *rand.Rand) sampled {
		shape := anyShape(rng)
		slope := between(.1, .9, broadcast(rng, shape)...)
		slope.held = rng.IntN(2) == 0
		return sampled{in: []input{random(shape...), slope}}
	}},
	"Softmax":    alongAxis(nil),
	"LogSoftmax": alongAxis(nil),
}

// alongAxis are nodes of one input with an axis, or without.
func alongAxis(a attrs) []sample {
	return []sample{func(rng *rand.Rand) sampled {
		rank := 1 + rng.IntN(4)
		own := attrs{"axis": int64(rng.IntN(2*rank) - rank)}
		for name, v := range a {
			own[name] = v
		}
		if rng.IntN(3) == 0 {
			delete(own, "axis")
		}
		return sampled{attrs: own, in: []input{random(dims(rng, rank)...)}}
	}}
}

var arithmetic = map[string][]sample{
	"Add":  binary(-2, 2),
	"Sub":  binary(-2, 2),
	"Mul":  binary(-2, 2),
	"Div":  binary(.3, 2),
	"Mod":  binary(.3, 2, attrs{"fmod": int64(1)}),
	"Pow":  append(binary(.3, 2), powersOf(1), powersOf(2), powersOf(3), powersOf(-.5)),
	"Sum":  variadic(),
	"Mean": variadic(),
	"Max":  variadic(),
	"Min":  variadic(),
	"Where": {func(rng *rand.Rand) sampled {
		shape := anyShape(rng)
		condition := broadcast(rng, shape)
		truth := make([]int64, graph.Elements(condition))
		for i := range truth {
			truth[i] = rng.Int64N(2)
		}
		in := []input{{constant: graph.FromInts(engine.Bool, condition, truth)}, random(shape...), random(broadcast(rng, shape)...)}
		if rng.IntN(2) == 0 {
			in[1], in[2] = in[2], in[1]
		}
		return sampled{in: in}
	}},
	"CumSum": {func(rng *rand.Rand) sampled {
		rank := 1 + rng.IntN(3)
		a := attrs{"exclusive": rng.Int64N(2), "reverse": rng.Int64N(2)}
		at := graph.FromInts(engine.Int64, []int{}, []int64{rng.Int64N(int64(rank))})
		return sampled{attrs: a, in: []input{random(dims(rng, rank)...), {constant: at}}}
	}},
	"MatMul": {func(rng *rand.Rand) sampled {
		batch, m, k, n := dims(rng, rng.IntN(3)), 1+rng.IntN(3), 1+rng.IntN(3), 1+rng.IntN(3)
		x := random(append(broadcast(rng, batch), m, k)...)
		y := random(append(batch, k, n)...)
		if rng.IntN(4) == 0 {
			x.shape = []int{k}
		}
		if rng.IntN(4) == 0 {
			y.shape = []int{k}
		}
		x.held, y.held = rng.IntN(4) == 0, false
		return sampled{in: []input{x, y}}
	}},
	"Einsum": {
		einsum("ij,jk->ik", []int{2, 3}, []int{3, 4}),
		einsum("bij, bkj -> bik", []int{2, 2, 3}, []int{2, 4, 3}),
		einsum("ijk->j", []int{2, 3, 4}),
		einsum("i,j,ji->", []int{2}, []int{3}, []int{3, 2}),
		einsum("ij,ij->ji", []int{2, 3}, []int{2, 3}),
	},
	"Gemm": {func(rng *rand.Rand) sampled {
		m, k, n := 1+rng.IntN(3), 1+rng.IntN(3), 1+rng.IntN(3)
		a := attrs{"transA": rng.Int64N(2), "transB": rng.Int64N(2), "alpha": .5, "beta": 1.5}
		x, y := []int{m, k}, []int{k, n}
		if a["transA"] == int64(1) {
			slices.Reverse(x)
		}
		if a["transB"] == int64(1) {
			slices.Reverse(y)
		}
		in := []input{random(x...), random(y...)}
		if rng.IntN(2) == 0 {
			in = append(in, random(broadcast(rng, []int{m, n})...))
		}
		return sampled{attrs: a, in: in}
	}},
}

// powersOf raises to a constant power.
func powersOf(exponent float64) sample {
	return func(rng *rand.Rand) sampled {
		return sampled{in: []input{between(.3, 2, anyShape(rng)...), {constant: graph.Scalar(engine.FP32, exponent)}}}
	}
}

func einsum(equation string, shapes ...[]int) sample {
	return func(*rand.Rand) sampled {
		s := sampled{attrs: attrs{"equation": equation}}
		for _, shape := range shapes {
			s.in = append(s.in, random(shape...))
		}
		return s
	}
}
