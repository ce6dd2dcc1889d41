package gradient_test

import (
	"math/rand/v2"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// reduced are nodes of a reduction of some dimensions, all or none.
func reduced(low, high float64) []sample {
	return []sample{func(rng *rand.Rand) sampled {
		x := anyShape(rng)
		s := sampled{attrs: attrs{"keepdims": rng.Int64N(2), "noop_with_empty_axes": rng.Int64N(2)}, in: []input{between(low, high, x...)}}
		if rng.IntN(4) > 0 {
			axes := []int64{}
			for i := range x {
				if rng.IntN(2) == 0 {
					axes = append(axes, int64(i-rng.IntN(2)*len(x)))
				}
			}
			s.in = append(s.in, ints(axes...))
		}
		return s
	}}
}

// normalised are nodes with a scale and a bias of as many elements as the input has channels.
func normalised(more func(rng *rand.Rand, x []int) attrs) []sample {
	return []sample{func(rng *rand.Rand) sampled {
		x := []int{1 + rng.IntN(2), 2 * (1 + rng.IntN(2)), 2 + rng.IntN(2), 1 + rng.IntN(3)}
		return sampled{attrs: more(rng, x), in: []input{random(x...), random(x[1]).kept(), random(x[1]).kept()}}
	}}
}

var statistics = map[string][]sample{
	"ReduceL1":        reduced(-2, 2),
	"ReduceL2":        reduced(.2, 2),
	"ReduceLogSum":    reduced(.2, 2),
	"ReduceLogSumExp": reduced(-2, 2),
	"ReduceMax":       reduced(-2, 2),
	"ReduceMean":      reduced(-2, 2),
	"ReduceMin":       reduced(-2, 2),
	"ReduceProd": append(reduced(.5, 1.5), func(*rand.Rand) sampled {
		rows := input{shape: []int{3, 3}, values: []float64{.5, 2, 3, 0, 1, 2, 0, 0, 1.5}}
		return sampled{in: []input{rows, ints(1)}}
	}),
	"ReduceSum":       reduced(-2, 2),
	"ReduceSumSquare": reduced(-2, 2),
	"LpNormalization": append(alongAxis(nil), alongAxis(attrs{"p": int64(1)})...),
	"BatchNormalization": {func(rng *rand.Rand) sampled {
		x := dims(rng, 2+rng.IntN(3))
		c := x[1]
		s := sampled{attrs: attrs{"epsilon": .01}, in: []input{random(x...), random(c), random(c), random(c).kept(), between(.3, 2, c).kept()}}
		return s
	}},
	"InstanceNormalization": normalised(func(*rand.Rand, []int) attrs { return attrs{"epsilon": .01} }),
	"GroupNormalization": normalised(func(rng *rand.Rand, x []int) attrs {
		return attrs{"epsilon": .01, "num_groups": int64(x[1] / (1 + rng.IntN(2)))}
	}),
	"LayerNormalization": {func(rng *rand.Rand) sampled {
		x := []int{1 + rng.IntN(2), 2 + rng.IntN(2), 2 + rng.IntN(2)}
		axis := rng.IntN(3)
		s := sampled{attrs: attrs{"epsilon": .01, "axis": int64(axis - 3*rng.IntN(2))}, in: []input{random(x...), random(x[axis:]...).kept()}}
		if rng.IntN(2) == 0 {
			s.in = append(s.in, random(x[axis:]...).kept())
		}
		return s
	}},
	"MeanVarianceNormalization": {func(rng *rand.Rand) sampled {
		return sampled{in: []input{random(2, 2, 3, 2)}}
	}, func(rng *rand.Rand) sampled {
		return sampled{attrs: attrs{"axes": []int64{1, -1}}, in: []input{random(2, 3, 2)}}
	}},
}

// permutation of n.
func permutation(rng *rand.Rand, n int) []int64 {
	out := make([]int64, n)
	for i, p := range rng.Perm(n) {
		out[i] = int64(p)
	}
	return out
}

var moves = map[string][]sample{
	"Reshape": {func(rng *rand.Rand) sampled { return sampled{in: []input{random(2, 3, 4), ints(0, -1, 2)}} }},
	"Flatten": alongAxis(nil),
	"Squeeze": {
		func(rng *rand.Rand) sampled { return sampled{in: []input{random(1, 3, 1, 2), ints(0, -2)}} },
		func(rng *rand.Rand) sampled { return sampled{in: []input{random(1, 3, 1, 2)}} },
	},
	"Unsqueeze": {func(rng *rand.Rand) sampled { return sampled{in: []input{random(3, 2), ints(0, -1)}} }},
	"Transpose": {
		func(rng *rand.Rand) sampled { return sampled{in: []input{random(anyShape(rng)...)}} },
		func(rng *rand.Rand) sampled {
			x := anyShape(rng)
			return sampled{attrs: attrs{"perm": permutation(rng, len(x))}, in: []input{random(x...)}}
		},
	},
	"Concat": {func(rng *rand.Rand) sampled {
		x := dims(rng, 1+rng.IntN(4))
		axis := rng.IntN(len(x))
		var in []input
		for range 1 + rng.IntN(4) {
			part := slices.Clone(x)
			part[axis] = rng.IntN(4)
			in = append(in, random(part...))
		}
		in = append(in, random(x...))
		return sampled{attrs: attrs{"axis": int64(axis - rng.IntN(2)*len(x))}, in: in}
	}},
	"Split": {
		func(rng *rand.Rand) sampled {
			x := dims(rng, 1+rng.IntN(4))
			axis := rng.IntN(len(x))
			parts := []int64{rng.Int64N(3), rng.Int64N(3), 1}
			x[axis] = int(parts[0] + parts[1] + parts[2])
			return sampled{attrs: attrs{"axis": int64(axis)}, in: []input{random(x...), ints(parts...)}, outs: 3}
		},
		func(rng *rand.Rand) sampled {
			return sampled{attrs: attrs{"axis": int64(-1), "num_outputs": int64(3)}, in: []input{random(2, 7)}, outs: 3}
		},
	},
	"Slice": {
		func(rng *rand.Rand) sampled {
			x := dims(rng, 1+rng.IntN(3))
			var starts, ends, steps, axes []int64
			for i, d := range x {
				if rng.IntN(3) == 0 {
					continue
				}
				step := rng.Int64N(3) + 1
				start, end := rng.Int64N(int64(d)), int64(1000)
				if rng.IntN(2) == 0 {
					step, end = -step, -1000
				}
				starts, ends, steps = append(starts, start-int64(d*rng.IntN(2))), append(ends, end), append(steps, step)
				axes = append(axes, int64(i-rng.IntN(2)*len(x)))
			}
			return sampled{in: []input{random(x...), ints(starts...), ints(ends...), ints(axes...), ints(steps...)}}
		},
		func(rng *rand.Rand) sampled { return sampled{in: []input{random(5, 4), ints(1, -9), ints(-1, 9)}} },
	},
	"Pad": {padded("constant"), padded("reflect"), padded("edge"), padded("wrap"), func(rng *rand.Rand) sampled {
		value := input{constant: graph.Scalar(engine.FP64, 7)}
		return sampled{in: []input{random(4, 3, 5), ints(-1, 2, 1, -2), value, ints(0, -1)}}
	}},
	"Expand": {func(rng *rand.Rand) sampled {
		to := anyShape(rng)
		shape := make([]int64, len(to))
		for i, d := range to {
			shape[i] = int64(d)
		}
		return sampled{in: []input{random(broadcast(rng, to)...), ints(shape...)}}
	}},
	"Tile": {func(rng *rand.Rand) sampled {
		x := dims(rng, 1+rng.IntN(3))
		repeats := make([]int64, len(x))
		for i := range repeats {
			repeats[i] = 1 + rng.Int64N(3)
		}
		return sampled{in: []input{random(x...), ints(repeats...)}}
	}},
	"Trilu": {
		func(rng *rand.Rand) sampled { return sampled{in: []input{random(2, 3, 4)}} },
		func(rng *rand.Rand) sampled {
			at := graph.FromInts(engine.Int64, []int{}, []int64{rng.Int64N(3) - 1})
			return sampled{attrs: attrs{"upper": rng.Int64N(2)}, in: []input{random(4, 3), {constant: at}}}
		},
	},
	"SpaceToDepth": {func(rng *rand.Rand) sampled {
		return sampled{attrs: attrs{"blocksize": int64(2)}, in: []input{random(2, 2, 4, 6)}}
	}},
	"DepthToSpace": {
		func(rng *rand.Rand) sampled {
			return sampled{attrs: attrs{"blocksize": int64(2)}, in: []input{random(2, 8, 2, 3)}}
		},
		func(rng *rand.Rand) sampled {
			return sampled{attrs: attrs{"blocksize": int64(2), "mode": "CRD"}, in: []input{random(2, 8, 2, 3)}}
		},
	},
	"ReverseSequence": {func(rng *rand.Rand) sampled {
		return sampled{attrs: attrs{"time_axis": int64(1), "batch_axis": int64(0)}, in: []input{random(3, 4, 2), ints(2, 4, 1)}}
	}},
	"CenterCropPad": {func(rng *rand.Rand) sampled {
		return sampled{in: []input{random(5, 4, 3), ints(2+rng.Int64N(6), 1+rng.Int64N(6), 3)}}
	}, func(rng *rand.Rand) sampled {
		return sampled{attrs: attrs{"axes": []int64{-1, 0}}, in: []input{random(5, 4, 3), ints(2+rng.Int64N(6), 1+rng.Int64N(6))}}
	}},
}

// padded pads by up to the size of each dimension, less one.
func padded(mode string) sample {
	return func(rng *rand.Rand) sampled {
		x := dims(rng, 1+rng.IntN(3))
		pads := make([]int64, 2*len(x))
		for i, d := range x {
			pads[i], pads[i+len(x)] = rng.Int64N(int64(d)), rng.Int64N(int64(d))
			if mode == "constant" && rng.IntN(2) == 0 {
				pads[i] = -pads[i] / 2
			}
		}
		return sampled{attrs: attrs{"mode": mode}, in: []input{random(x...), ints(pads...)}}
	}
}

// indices are random ones below n, some counted from the end.
func indices(rng *rand.Rand, n int, shape ...int) input {
	at := make([]int64, graph.Elements(shape))
	for i := range at {
		at[i] = rng.Int64N(int64(2*n)) - int64(n)
	}
	return input{constant: graph.FromInts(engine.Int64, shape, at)}
}

var picks = map[string][]sample{
	"Gather": {
		func(rng *rand.Rand) sampled {
			return sampled{attrs: attrs{"axis": int64(1)}, in: []input{random(2, 5, 3), indices(rng, 5, 2, 3)}}
		},
		func(rng *rand.Rand) sampled {
			return sampled{attrs: attrs{"axis": int64(-1)}, in: []input{random(2, 5), indices(rng, 5)}}
		},
		func(rng *rand.Rand) sampled { return sampled{in: []input{random(6, 2), ints(permutation(rng, 6)...)}} },
		func(rng *rand.Rand) sampled { return sampled{in: []input{random(7, 2), ints(-2, 3, 1)}} },
	},
	"GatherElements": {func(rng *rand.Rand) sampled {
		return sampled{attrs: attrs{"axis": int64(-1)}, in: []input{random(3, 5), indices(rng, 5, 2, 4)}}
	}},
	"GatherND": {
		func(rng *rand.Rand) sampled { return sampled{in: []input{random(3, 3, 2), indices(rng, 3, 4, 2)}} },
		func(rng *rand.Rand) sampled {
			return sampled{attrs: attrs{"batch_dims": int64(1)}, in: []input{random(2, 3, 2), indices(rng, 3, 2, 4, 1)}}
		},
	},
	"ScatterElements": {
		func(rng *rand.Rand) sampled {
			return sampled{attrs: attrs{"axis": int64(1)}, in: []input{random(2, 5), ints2(2, 3, 4, 0, -3, 1, 2, 3), random(2, 3)}}
		},
		func(rng *rand.Rand) sampled {
			return sampled{attrs: attrs{"axis": int64(1), "reduction": "add"}, in: []input{random(2, 5), indices(rng, 5, 2, 3), random(2, 3)}}
		},
	},
	"ScatterND": {
		func(rng *rand.Rand) sampled {
			return sampled{in: []input{random(4, 3), ints2(3, 2, 0, 1, 3, 2, 1, 0), random(3)}}
		},
		func(rng *rand.Rand) sampled {
			return sampled{attrs: attrs{"reduction": "add"}, in: []input{random(3, 3, 2), indices(rng, 3, 4, 2), random(4, 2)}}
		},
	},
	"TopK": {
		func(rng *rand.Rand) sampled {
			a := attrs{"axis": int64(0), "largest": rng.Int64N(2)}
			return sampled{attrs: a, in: []input{random(5, 3), ints(2)}, outs: 2}
		},
		func(rng *rand.Rand) sampled { return sampled{in: []input{random(2, 5), ints(3)}} },
	},
}

// ints2 is a matrix of indices.
func ints2(rows, columns int, elements ...int64) input {
	return input{constant: graph.FromInts(engine.Int64, []int{rows, columns}, elements)}
}
