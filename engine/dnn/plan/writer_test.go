package plan_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

func seconds(s float64) time.Duration { return time.Duration(s * 1e9) }

// writer writes random graphs.
type writer struct {
	random *rand.Rand
	used   map[string]int
	b      *graph.Builder
	values []*graph.Value
}

// graph has so many moves, each of which adds one or a few nodes.
func (w *writer) graph(moves int) *graph.Graph {
	g := &graph.Graph{}
	w.b = graph.NewBuilder(g, infer)
	w.values = nil
	for i := range 1 + w.random.IntN(2) {
		_ = i
		w.values = append(w.values, w.b.Input("x", engine.FP32, 1+w.random.IntN(2), 1+w.random.IntN(6), 1+w.random.IntN(7), 1+w.random.IntN(7)))
	}
	all := w.moves()
	names := slices.Sorted(maps.Keys(all))
	for added := 0; added < moves; {
		name := names[w.random.IntN(len(names))]
		nodes := len(g.Nodes)
		v := all[name](w.pick())
		if v == nil || graph.Elements(v.Shape) == 0 || graph.Elements(v.Shape) > 4000 || w.b.Err() != nil {
			if w.b.Err() != nil {
				panic(w.b.Err())
			}
			g.Nodes = g.Nodes[:nodes]
			continue
		}
		w.used[name]++
		added++
		w.values = append(w.values, v)
	}
	last := w.values[len(w.values)-1]
	g.Outputs = []*graph.Value{last}
	for _, v := range w.values {
		if v != last && v.From != nil && w.random.IntN(5) == 0 {
			g.Outputs = append(g.Outputs, v)
		}
	}
	return g
}

// pick is a value, a late one more likely.
func (w *writer) pick() *graph.Value {
	n := len(w.values)
	return w.values[n-1-min(w.random.IntN(n), w.random.IntN(n))]
}

func (w *writer) normal(shape ...int) *graph.Value {
	return w.b.Const("c", w.tensor(engine.FP32, shape...))
}

func (w *writer) ints(list ...int) *graph.Value {
	var out []int64
	for _, x := range list {
		out = append(out, int64(x))
	}
	return w.b.Const("i", graph.Vector(out...))
}

func (w *writer) op(op string, attrs graph.Attrs, in ...*graph.Value) *graph.Value {
	return w.b.Op(op, attrs, in...)
}

func list(n ...int) (out []int64) {
	for _, x := range n {
		out = append(out, int64(x))
	}
	return out
}

type attrs = graph.Attrs

// windowAttrs are those of a kernel that fits an image, or nil.
func (w *writer) windowAttrs(x *graph.Value, kernel ...int) attrs {
	a := attrs{}
	strides, dilations, pads := []int64{}, []int64{}, make([]int64, 2*len(kernel))
	for i, k := range kernel {
		d, before, after := 1+w.random.IntN(2), w.random.IntN(min(2, k)), w.random.IntN(min(2, k))
		if (k-1)*d+1 > x.Shape[i+2]+before+after {
			return nil
		}
		strides, dilations = append(strides, int64(1+w.random.IntN(2))), append(dilations, int64(d))
		pads[i], pads[i+len(kernel)] = int64(before), int64(after)
	}
	a["strides"], a["dilations"], a["pads"] = strides, dilations, pads
	return a
}

// moves add nodes that read x, or nothing where x does not suit.
func (w *writer) moves() map[string]func(x *graph.Value) *graph.Value {
	type value = *graph.Value
	image := func(f func(x value) value) func(x value) value { // of N, C, H, W
		return func(x value) value {
			if len(x.Shape) != 4 {
				return nil
			}
			return f(x)
		}
	}
	table := map[string]func(x value) value{
		"Conv": image(func(x value) value {
			kernel := []int{1 + w.random.IntN(3), 1 + w.random.IntN(3)}
			a, c := w.windowAttrs(x, kernel...), x.Shape[1]
			if a == nil {
				return nil
			}
			group := 1
			if w.random.IntN(3) == 0 {
				group = c
			}
			a["group"] = int64(group)
			out := group * (1 + w.random.IntN(4))
			in := []value{x, w.normal(out, c/group, kernel[0], kernel[1])}
			if w.random.IntN(2) == 0 {
				in = append(in, w.normal(out))
			}
			return w.op("Conv", a, in...)
		}),
		"ConvTranspose": image(func(x value) value {
			kernel := []int{1 + w.random.IntN(3), 1 + w.random.IntN(3)}
			in := []value{x, w.normal(x.Shape[1], 1+w.random.IntN(3), kernel[0], kernel[1])}
			if w.random.IntN(2) == 0 {
				in = append(in, w.normal(in[1].Shape[1]))
			}
			return w.op("ConvTranspose", attrs{"strides": list(1+w.random.IntN(2), 1+w.random.IntN(2))}, in...)
		}),
		"MaxPool": image(func(x value) value { return w.pool("MaxPool", x) }),
		"AveragePool": image(func(x value) value {
			return w.pool("AveragePool", x)
		}),
		"GlobalAveragePool": image(func(x value) value { return w.op("GlobalAveragePool", nil, x) }),
		"GlobalMaxPool":     image(func(x value) value { return w.op("GlobalMaxPool", nil, x) }),
		"BatchNormalization": image(func(x value) value {
			c := x.Shape[1]
			variance := w.tensor(engine.FP32, c).Floats()
			for i := range variance {
				variance[i] = 0.5 + variance[i]*variance[i]
			}
			v := w.b.Const("v", graph.FromFloats(engine.FP32, []int{c}, variance))
			return w.op("BatchNormalization", nil, x, w.normal(c), w.normal(c), w.normal(c), v)
		}),
		"SiLU": func(x value) value { return w.op("Mul", nil, x, w.op("Sigmoid", nil, x)) },
		"HardSwish": func(x value) value {
			six := w.b.Const("c", graph.Scalar(engine.FP32, 6))
			gate := w.op("Clip", nil, w.op("Add", nil, x, w.b.Const("c", graph.Scalar(engine.FP32, 3))), w.b.Const("c", graph.Scalar(engine.FP32, 0)), six)
			return w.op("Div", nil, w.op("Mul", nil, x, gate), six)
		},
		"Softmax":    func(x value) value { return w.op("Softmax", attrs{"axis": w.axis(x)}, x) },
		"LogSoftmax": func(x value) value { return w.op("LogSoftmax", attrs{"axis": w.axis(x)}, x) },
		"LayerNormalization": func(x value) value {
			last := x.Shape[len(x.Shape)-1]
			return w.op("LayerNormalization", attrs{"axis": int64(-1)}, x, w.normal(last), w.normal(last))
		},
		"InstanceNormalization": image(func(x value) value {
			return w.op("InstanceNormalization", nil, x, w.normal(x.Shape[1]), w.normal(x.Shape[1]))
		}),
		"GroupNormalization": image(func(x value) value {
			c := x.Shape[1]
			groups := 1
			if c%2 == 0 {
				groups = 2
			}
			return w.op("GroupNormalization", attrs{"num_groups": int64(groups)}, x, w.normal(c), w.normal(c))
		}),
		"LpNormalization": func(x value) value { return w.op("LpNormalization", attrs{"axis": w.axis(x)}, x) },
		"LRN":             image(func(x value) value { return w.op("LRN", attrs{"size": int64(3), "alpha": 0.5}, x) }),
		"Add":             func(x value) value { return w.paired("Add", x) },
		"Sub":             func(x value) value { return w.paired("Sub", x) },
		"Mul":             func(x value) value { return w.paired("Mul", x) },
		"Where": func(x value) value {
			return w.op("Where", nil, w.paired("Less", x), x, w.op("Neg", nil, x))
		},
		"logic": func(x value) value {
			a, b := w.paired("Greater", x), w.paired("LessOrEqual", x)
			return w.op("Cast", attrs{"to": int64(1)}, w.op([]string{"And", "Or", "Xor"}[w.random.IntN(3)], nil, a, w.op("Not", nil, b)))
		},
		"scaled": image(func(x value) value {
			op := []string{"Add", "Sub", "Mul", "Div"}[w.random.IntN(4)]
			return w.op(op, nil, x, w.normal(x.Shape[1], 1, 1))
		}),
		"Transpose": func(x value) value {
			var perm []int64
			for _, d := range w.random.Perm(len(x.Shape)) {
				perm = append(perm, int64(d))
			}
			return w.op("Transpose", attrs{"perm": perm}, x)
		},
		"Reshape": func(x value) value {
			n := graph.Elements(x.Shape)
			var shape []int
			for len(shape) < 3 {
				d := 1 + w.random.IntN(8)
				if n%d == 0 {
					shape, n = append(shape, d), n/d
				}
			}
			return w.op("Reshape", nil, x, w.ints(append(shape, n)...))
		},
		"Flatten": func(x value) value { return w.op("Flatten", attrs{"axis": w.axis(x)}, x) },
		"Unsqueeze": func(x value) value {
			if len(x.Shape) > 4 {
				return nil
			}
			return w.op("Unsqueeze", nil, x, w.ints(int(w.axis(x))))
		},
		"Slice": func(x value) value {
			d := int(w.axis(x))
			n := x.Shape[d]
			from := w.random.IntN(n)
			if w.random.IntN(4) == 0 {
				return w.op("Slice", nil, x, w.ints(-1), w.ints(-1000), w.ints(d), w.ints(-1))
			}
			return w.op("Slice", nil, x, w.ints(from), w.ints(n), w.ints(d), w.ints(1+w.random.IntN(2)))
		},
		"Focus": image(func(x value) value {
			if x.Shape[2]%2 != 0 || x.Shape[3]%2 != 0 {
				return nil
			}
			var parts []value
			for i := range 4 {
				y := w.op("Slice", nil, x, w.ints(i%2), w.ints(1000), w.ints(2), w.ints(2))
				parts = append(parts, w.op("Slice", nil, y, w.ints(i/2), w.ints(1000), w.ints(3), w.ints(2)))
			}
			return w.op("Concat", attrs{"axis": int64(1)}, parts...)
		}),
		"Split": image(func(x value) value {
			if x.Shape[1] < 2 {
				return nil
			}
			parts := w.b.Node("Split", []value{x, w.ints(1, x.Shape[1]-1)}, attrs{"axis": int64(1)}, 2)
			w.values = append(w.values, parts[0])
			return parts[1]
		}),
		"Concat": func(x value) value {
			d := int(w.axis(x))
			in := []value{x}
			for _, v := range w.values {
				if len(v.Shape) != len(x.Shape) || v.Type != x.Type || len(in) == 4 {
					continue
				}
				fits := true
				for i := range v.Shape {
					fits = fits && (i == d || v.Shape[i] == x.Shape[i])
				}
				if fits {
					in = append(in, v)
				}
			}
			return w.op("Concat", attrs{"axis": int64(d)}, in...)
		},
		"Expand": func(x value) value {
			return w.op("Expand", nil, w.op("ReduceMax", nil, x, w.ints(int(w.axis(x)))), w.ints(x.Shape...))
		},
		"Tile": image(func(x value) value { return w.op("Tile", nil, x, w.ints(1, 2, 1, 3)) }),
		"Gather": func(x value) value {
			d := int(w.axis(x))
			return w.op("Gather", attrs{"axis": int64(d)}, x, w.ints(0, x.Shape[d]-1, -1))
		},
		"Pad": image(func(x value) value {
			mode := []string{"constant", "edge", "wrap", "constant", "reflect"}[w.random.IntN(5)]
			if mode == "reflect" && min(x.Shape[2], x.Shape[3]) < 2 {
				return nil
			}
			pads := w.ints(0, 0, w.random.IntN(2), w.random.IntN(2), 0, 0, w.random.IntN(2), 1)
			if mode == "constant" && w.random.IntN(2) == 0 {
				return w.op("Pad", attrs{"mode": mode}, x, pads, w.b.Const("p", graph.Scalar(engine.FP32, 1.5)))
			}
			return w.op("Pad", attrs{"mode": mode}, x, pads)
		}),
		"DepthToSpace": image(func(x value) value {
			if x.Shape[1]%4 != 0 {
				return nil
			}
			return w.op("DepthToSpace", attrs{"blocksize": int64(2), "mode": []string{"DCR", "CRD"}[w.random.IntN(2)]}, x)
		}),
		"SpaceToDepth": image(func(x value) value {
			if x.Shape[2]%2 != 0 || x.Shape[3]%2 != 0 {
				return nil
			}
			return w.op("SpaceToDepth", attrs{"blocksize": int64(2)}, x)
		}),
		"MatMul": func(x value) value {
			if len(x.Shape) < 2 {
				return nil
			}
			return w.op("MatMul", nil, x, w.normal(x.Shape[len(x.Shape)-1], 1+w.random.IntN(5)))
		},
		"attention": func(x value) value {
			perm := list()
			for i := range x.Shape {
				perm = append(perm, int64(i))
			}
			n := len(perm)
			if n < 2 {
				return nil
			}
			perm[n-1], perm[n-2] = perm[n-2], perm[n-1]
			return w.op("MatMul", nil, x, w.op("Transpose", attrs{"perm": perm}, x))
		},
		"Gemm": func(x value) value {
			y := w.op("Flatten", attrs{"axis": w.axis(x)}, x)
			out := 1 + w.random.IntN(4)
			a := attrs{"alpha": 1 + float64(w.random.IntN(2)), "beta": 1 + float64(w.random.IntN(2)), "transB": int64(w.random.IntN(2))}
			weight := w.normal(y.Shape[1], out)
			if a["transB"] == int64(1) {
				weight = w.normal(out, y.Shape[1])
			}
			return w.op("Gemm", a, y, weight, w.normal(out))
		},
		"reduce": func(x value) value {
			op := []string{"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare"}[w.random.IntN(7)]
			return w.op(op, attrs{"keepdims": int64(w.random.IntN(2))}, x, w.ints(int(w.axis(x))))
		},
		"half": func(x value) value {
			return w.op("Cast", attrs{"to": int64(1)}, w.op("Cast", attrs{"to": int64(11)}, x))
		},
		"integers": func(x value) value {
			return w.op("Cast", attrs{"to": int64(1)}, w.op("Cast", attrs{"to": int64(7)}, x))
		},
		"ArgMax": func(x value) value {
			return w.op("Cast", attrs{"to": int64(1)}, w.op("ArgMax", attrs{"axis": w.axis(x)}, x))
		},
	}
	for _, op := range []string{"Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Erf", "Softplus", "Softsign", "Elu", "Selu", "Celu", "HardSigmoid", "HardSwish",
		"Mish", "Gelu", "LeakyRelu", "Floor", "Sin", "Cos", "Sign", "Identity", "ThresholdedRelu", "Dropout"} {
		table["1 "+op] = func(x value) value { return w.op(op, nil, x) }
	}
	return table
}

func (w *writer) axis(x *graph.Value) int64 { return int64(w.random.IntN(max(1, len(x.Shape)))) }

// paired applies an operation to x and another value, or a constant, that it broadcasts with.
func (w *writer) paired(op string, x *graph.Value) *graph.Value {
	for _, y := range w.values {
		if slices.Equal(x.Shape, y.Shape) && w.random.IntN(2) == 0 {
			return w.op(op, nil, x, y)
		}
	}
	shape := slices.Clone(x.Shape)
	for i := range shape {
		if w.random.IntN(2) == 0 {
			shape[i] = 1
		}
	}
	return w.op(op, nil, x, w.normal(shape[w.random.IntN(len(shape)+1):]...))
}

func (w *writer) pool(op string, x *graph.Value) *graph.Value {
	most := 3
	if op == "MaxPool" {
		most = 6
	}
	kernel := []int{1 + w.random.IntN(most), 1 + w.random.IntN(most)}
	a := w.windowAttrs(x, kernel...)
	if a == nil {
		return nil
	}
	a["kernel_shape"], a["ceil_mode"] = list(kernel...), int64(w.random.IntN(2))
	if op == "AveragePool" {
		a["count_include_pad"] = int64(w.random.IntN(2))
	}
	return w.op(op, a, x)
}
