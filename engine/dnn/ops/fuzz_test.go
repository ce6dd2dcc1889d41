package ops_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/spatial"
)

// choices are made by bytes; when they are used up, the first choice is taken.
type choices struct{ data []byte }

func (c *choices) of(n int) int {
	if len(c.data) == 0 {
		return 0
	}
	b := c.data[0]
	c.data = c.data[1:]
	return int(b) % n
}

func pick[T any](c *choices, from ...T) T { return from[c.of(len(from))] }

var attributes = []string{
	"allowzero", "alpha", "antialias", "approximate", "auto_pad", "axes", "axis", "batch_axis", "batch_dims", "beta", "bias", "blocksize",
	"ceil_mode", "center_point_box", "clip", "coordinate_transformation_mode", "count_include_pad", "detect_negative", "dilations",
	"direction", "dtype", "else_branch", "epsilon", "equation", "exclude_outside", "exclusive", "fmod", "group", "hidden_size", "input_forget", "k",
	"keep_aspect_ratio_policy", "keepdims", "kernel_shape", "largest", "layout", "linear_before_reset", "mode", "nearest_mode",
	"noop_with_empty_axes", "num_groups", "num_outputs", "output_height", "output_padding", "output_shape", "output_width", "p",
	"pads", "padding_mode", "perm", "reduction", "reverse", "sampling_ratio", "select_last_index", "size", "sorted", "spatial_scale", "start", "end",
	"storage_order", "strides", "then_branch", "time_axis", "to", "transA", "transB", "upper", "value", "activations", "activation_alpha",
	"num_heads", "block_size", "saturate", "output_dtype", "shape", "starts", "steps",
}

var words = []string{
	"", "LEFT", "RIGHT", "SAME_UPPER", "SAME_LOWER", "VALID", "linear", "nearest", "cubic", "reflect", "edge", "wrap", "tf_crop_and_resize",
	"align_corners", "asymmetric", "half_pixel_symmetric", "bidirectional", "reverse", "CRD", "add", "max", "border", "reflection", "floor", "ceil",
	"not_larger", "not_smaller", "ij,jk->ik", "...ii->...i", "a,->", "..i,", "tanh", "output_half_pixel",
}

// number is one that is likely to be wrong.
func (c *choices) number() int64 {
	return pick[int64](c, 1, 2, 0, 3, -1, -2, 4, 5, 1, 2, 0, 1<<20, math.MaxInt32, math.MinInt64, math.MaxInt64, 1<<40)
}

func (c *choices) attribute(deep int) any {
	switch c.of(9) {
	case 0, 1:
		return c.number()
	case 2, 3:
		return indexed(c.of(7), func(int) int64 { return c.number() })
	case 4:
		return pick(c, 0.5, -1, 0, math.Inf(1), math.NaN(), 1e30)
	case 5:
		return words[c.of(len(words))]
	case 6:
		return c.tensor()
	case 7:
		return []string{words[c.of(len(words))], "Tanh"}
	}
	g := &graph.Graph{}
	if deep > 0 {
		n := c.node(deep - 1)
		g.Nodes, g.Outputs = []*graph.Node{n}, slices.DeleteFunc(slices.Clone(n.Out), func(v *graph.Value) bool { return v == nil })
	}
	return g
}

func indexed[T any](n int, f func(int) T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

func (c *choices) tensor() *graph.Tensor {
	typ := pick(c, engine.FP32, engine.Int64, engine.FP64, engine.Bool, engine.Uint8, engine.Uint64, engine.Int8, engine.FP16, engine.Int32)
	shape := indexed(c.of(6), func(int) int { return pick(c, 2, 1, 3, 4, 0, 5) })
	x := make([]float64, graph.Elements(shape))
	for i := range x {
		if typ == engine.FP32 || typ == engine.FP64 {
			x[i] = pick(c, 1, 0.5, 2, -3, 0, math.NaN(), math.Inf(1), 1e9, -0.25)
		} else {
			x[i] = float64(pick[int64](c, 1, 2, 0, -1, 3, 1<<20, math.MaxInt64, 4))
		}
	}
	return graph.FromFloats(typ, shape, x)
}

// value has a shape that may not be known or may be absurd.
func (c *choices) value(i int) *graph.Value {
	t := c.tensor()
	name := fmt.Sprintf("v%d", i)
	switch c.of(8) {
	case 0, 1, 2:
		return graph.NewConst(name, t)
	case 3:
		v := graph.NewValue(name)
		if c.of(2) == 1 {
			v.Type = t.Type
		}
		return v
	case 4:
		return nil
	}
	v := graph.NewValue(name)
	for i := range t.Shape {
		if c.of(4) == 1 {
			t.Shape[i] = pick(c, -1, -1, -1, math.MaxInt32, math.MaxInt64, 1<<31, -2)
		}
	}
	v.Set(t.Type, t.Shape)
	return v
}

var names = func() []string {
	all := ops.Names()
	slices.Sort(all)
	return all
}()

func (c *choices) node(deep int) *graph.Node {
	n := &graph.Node{Op: names[c.of(len(names))], Name: "n", Attrs: graph.Attrs{}}
	for i := range c.of(6) {
		n.In = append(n.In, c.value(i))
	}
	for range c.of(4) {
		v := graph.NewValue("out")
		if c.of(5) == 1 {
			v = nil
		}
		n.Out = append(n.Out, v)
	}
	n.Out = append(n.Out, graph.NewValue("last"))
	for range c.of(5) {
		n.Attrs[attributes[c.of(len(attributes))]] = c.attribute(deep)
	}
	return n
}

// attempt infers and evaluates a random node, of random inputs and of those it has as constants.
func attempt(t *testing.T, data []byte) (evaluated string) {
	c := &choices{data}
	n := c.node(2)
	op, _ := ops.Lookup(n.Op)
	defer func() {
		if p := recover(); p != nil {
			t.Fatalf("%v of %v with %v: %v", n, n.In, n.Attrs, p)
		}
	}()
	if err := op.Infer(n); err != nil && !strings.Contains(err.Error(), n.Op) {
		t.Fatalf("%v: its error is %q", n, err)
	}
	_, _ = spatial.WindowOf(n)
	_, _, _ = spatial.ResizeTaps(n)
	in := make([]*graph.Tensor, len(n.In))
	for i, v := range n.In {
		if v != nil {
			if in[i] = v.Const; in[i] == nil {
				in[i] = c.tensor()
			}
			n.In[i] = graph.NewConst(v.Name, in[i])
		}
	}
	if n.Op == "If" {
		return ""
	}
	inferErr := op.Infer(n)
	out, err := op.Eval(n, in)
	if err != nil {
		return ""
	}
	if inferErr != nil {
		t.Fatalf("%v of %v with %v: computed, and not inferred: %v", n, in, n.Attrs, inferErr)
	}
	for i, v := range n.Out {
		if v == nil {
			continue
		}
		if err := inferred(v, out[i]); err != nil {
			t.Fatalf("%v of %v with %v: output %d: %v", n, in, n.Attrs, i, err)
		}
		if len(out[i].Data) != out[i].Len()*out[i].Type.Size() {
			t.Fatalf("%v: output %d, %v, has %d bytes", n, i, out[i], len(out[i].Data))
		}
	}
	differentiate(t, n, in, out)
	return n.Op
}

// differentiate writes the gradient of a node that can be computed, and computes it: what it says are the types and
// shapes of the inputs.
func differentiate(t *testing.T, n *graph.Node, in, out []*graph.Tensor) {
	op, _ := ops.Lookup(n.Op)
	if op.Grad == nil {
		return
	}
	b := graph.NewBuilder(&graph.Graph{}, func(n *graph.Node) error {
		op, _ := ops.Lookup(n.Op)
		return op.Infer(n)
	})
	have := map[*graph.Value]*graph.Tensor{}
	input := func(like *graph.Tensor) *graph.Value {
		v := b.Input("x", like.Type, like.Shape...)
		have[v] = like
		return v
	}
	variable := &graph.Node{Op: n.Op, Name: n.Name, Attrs: n.Attrs}
	for _, x := range in {
		var v *graph.Value
		if x != nil && graph.Floating(x.Type) {
			v = input(x)
		} else if x != nil {
			v = b.Const("c", x)
		}
		variable.In = append(variable.In, v)
	}
	var grads []*graph.Value
	for i, v := range n.Out {
		if v == nil {
			variable.Out, grads = append(variable.Out, nil), append(grads, nil)
			continue
		}
		v = graph.NewValue(fmt.Sprintf("y%d", i))
		variable.Out = append(variable.Out, v)
		if grads = append(grads, nil); graph.Floating(out[i].Type) {
			grads[i] = input(out[i])
		}
	}
	known := func(v *graph.Value) bool { return v == nil || v.Known() }
	if op.Infer(variable) != nil || !slices.ContainsFunc(grads, func(v *graph.Value) bool { return v != nil }) {
		return
	}
	for _, v := range variable.Out {
		if !known(v) {
			return
		}
	}
	wanted, err := op.Grad(b, variable, grads)
	if err == nil {
		err = b.Err()
	}
	if err != nil {
		return
	}
	for i, d := range wanted {
		if d != nil && (d.Type != in[i].Type || !slices.Equal(d.Shape, in[i].Shape)) {
			t.Fatalf("%v of %v with %v: the gradient of input %d is %v", n, in, n.Attrs, i, d)
		}
	}
	for _, n := range append([]*graph.Node{variable}, b.Graph.Nodes...) {
		var in []*graph.Tensor
		for _, v := range n.In {
			in = append(in, nil)
			if v != nil && v.Const != nil {
				in[len(in)-1] = v.Const
			} else if v != nil {
				in[len(in)-1] = have[v]
			}
		}
		op, _ := ops.Lookup(n.Op)
		out, err := op.Eval(n, in)
		if err != nil {
			t.Fatalf("%v of %v: gradient: %v", variable, variable.In, err)
		}
		for i, v := range n.Out {
			have[v] = out[i]
		}
	}
}

// inferred says whether t is what was known of v.
func inferred(v *graph.Value, t *graph.Tensor) error {
	ok := v.Type == t.Type && (v.Rank < 0 || v.Rank == len(t.Shape))
	for i := 0; ok && i < v.Rank; i++ {
		ok = v.Shape[i] < 0 || v.Shape[i] == t.Shape[i]
	}
	if !ok {
		return fmt.Errorf("inferred %v, and it is %v", v, t)
	}
	return nil
}

// TestRandomNodes tries nodes of which most are wrong: none may panic, and those that are computed have the types and
// shapes that are inferred.
func TestRandomNodes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	computed := map[string]int{}
	for range 100_000 {
		data := make([]byte, 20+random.IntN(200))
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		computed[attempt(t, data)]++
	}
	t.Logf("%d operations computed something", len(computed)-1)
}

func FuzzNode(f *testing.F) {
	for i := range names {
		f.Add([]byte{byte(i), 2, 0, 2, 1, 1, 1, 1, 1, 1})
	}
	f.Fuzz(func(t *testing.T, data []byte) { attempt(t, data) })
}
