package ops

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// call is an operation applied to inputs: to values of which types and shapes may be known, for Infer, or to
// tensors, which are constants, for Eval. What it finds wrong it panics with, as a failure, which infer and eval
// recover from.
type call struct {
	node  *graph.Node
	in    []*graph.Value // nil: not given
	out   []*graph.Value
	limit int // the most elements of an output
	// evaluates says that this is for Eval, where all is known.
	evaluates bool
	run       func(in []*graph.Tensor) []*graph.Tensor
}

// failure is an error on its way out of a call; unknown ends a call that needs what is not known yet.
type (
	failure struct{ error }
	unknown struct{}
)

func (d definition) infer(n *graph.Node) error {
	c := &call{node: n, in: n.In, limit: MaxElements}
	err := c.attempt(func() {
		d.check(c, len(n.Out))
		d.apply(c)
	})
	if err != nil {
		return err
	}
	for i, v := range n.Out {
		if v != nil {
			v.Type, v.Shape, v.Rank = c.out[i].Type, c.out[i].Shape, c.out[i].Rank
		}
	}
	return nil
}

func (d definition) eval(n *graph.Node, in []*graph.Tensor) (out []*graph.Tensor, err error) {
	c := &call{node: n, in: make([]*graph.Value, len(in)), limit: MaxEvalElements, evaluates: true}
	for i, t := range in {
		if t != nil {
			c.in[i] = graph.NewConst("", t)
		}
	}
	err = c.attempt(func() {
		c.checkData(in)
		d.check(c, len(n.Out))
		d.apply(c)
		if c.run == nil {
			c.fail("its inputs are not what it takes")
		}
		out = c.run(in)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// attempt calls f and returns the failure it ends with.
func (c *call) attempt(f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil, unknown:
		case failure:
			err = fmt.Errorf("%v: %w", c.node, p.error)
		default:
			panic(p)
		}
	}()
	f()
	return nil
}

// check checks the numbers of inputs and outputs, and gives outputs the type of input 0, which the operation may change.
func (d definition) check(c *call, outputs int) {
	if n := len(c.in); n < d.fewest || n > d.most {
		c.fail("%d inputs, of %s", n, between(d.fewest, d.most))
	}
	if outputs < 1 || outputs > d.outputs {
		c.fail("%d outputs, of %s", outputs, between(1, d.outputs))
	}
	for i, v := range c.in {
		if v == nil && (i < d.fewest || d.most == many) {
			c.fail("input %d is not given", i)
		}
		if v != nil && v.Rank >= 0 {
			c.checkShape(fmt.Sprintf("input %d", i), v.Shape)
		}
	}
	c.out = make([]*graph.Value, outputs)
	for i := range c.out {
		c.out[i] = graph.NewValue("")
	}
	if len(c.in) > 0 && c.in[0] != nil {
		c.elements(0, d.types)
		for _, v := range c.out {
			v.Type = c.in[0].Type
		}
	}
}

func between(least, most int) string {
	switch {
	case most == many:
		return fmt.Sprintf("%d or more", least)
	case least == most:
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

func (c *call) fail(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// has says whether an optional input is given.
func (c *call) has(i int) bool { return i < len(c.in) && c.in[i] != nil }

// dims is the shape of an input. The call ends if not even the rank is known.
func (c *call) dims(i int) []int {
	if c.in[i].Rank < 0 {
		panic(unknown{})
	}
	return c.in[i].Shape
}

// ranked is the shape of an input whose rank lies in a range.
func (c *call) ranked(i, least, most int) []int {
	d := c.dims(i)
	if len(d) < least || len(d) > most {
		c.fail("input %d has %d dimensions, of %s", i, len(d), between(least, most))
	}
	return d
}

// vector is the number of elements of an input of one dimension, -1 if that is not known.
func (c *call) vector(i int) int { return c.ranked(i, 1, 1)[0] }

// elements checks the type of an input, if it is known.
func (c *call) elements(i int, of kinds) engine.DType {
	t := c.in[i].Type
	if t != 0 && !of.have(t) {
		c.fail("input %d is of %v, not of %v", i, t, of)
	}
	return t
}

// same checks that inputs which are given have the type of input 0.
func (c *call) same(inputs ...int) {
	for _, i := range inputs {
		if c.has(i) && c.in[i].Type != 0 && c.in[0].Type != 0 && c.in[i].Type != c.in[0].Type {
			c.fail("input %d is of %v, and input 0 of %v", i, c.in[i].Type, c.in[0].Type)
		}
	}
}

// expect checks the dimensions of an input that are known, where want has them too.
func (c *call) expect(i int, want ...int) {
	if c.in[i].Rank < 0 {
		return
	}
	got := c.in[i].Shape
	ok := len(got) == len(want)
	for d := 0; ok && d < len(got); d++ {
		ok = got[d] == want[d] || got[d] < 0 || want[d] < 0
	}
	if !ok {
		c.fail("input %d has the shape %v, not %v", i, got, want)
	}
}

// ints is the elements of an integer input that is a constant; ok is false if it is none. In Eval all are.
func (c *call) ints(i int) (values []int, ok bool) {
	t := c.in[i].Const
	c.elements(i, integers)
	if t == nil {
		return nil, false
	}
	c.checkData([]*graph.Tensor{t})
	for _, v := range t.Ints() {
		values = append(values, int(v))
	}
	return values, true
}

// scalar is the one element of an input that is a constant; ok is false if it is none.
func (c *call) scalar(i int) (value float64, ok bool) {
	t := c.in[i].Const
	if c.in[i].Rank >= 0 && !slices.Contains([]int{1, -1}, product(c.in[i].Shape)) {
		c.fail("input %d has the shape %v, not one element", i, c.in[i].Shape)
	}
	if t == nil {
		return 0, false
	}
	c.checkData([]*graph.Tensor{t})
	return t.Floats()[0], true
}

// checkData checks that tensors have the bytes that their shapes tell.
func (c *call) checkData(in []*graph.Tensor) {
	for i, t := range in {
		if t == nil {
			continue
		}
		c.checkShape(fmt.Sprintf("input %d", i), t.Shape)
		want := graph.Elements(t.Shape) * t.Type.Size()
		if t.Type.Size() == 0 || len(t.Data) != want && (t.Data != nil || !readsShape[c.node.Op]) {
			c.fail("input %d, %v, has %d bytes", i, t, len(t.Data))
		}
	}
}

// readsShape are the operations that read no data.
var readsShape = map[string]bool{"Shape": true, "Size": true}

// typed sets an output's type.
func (c *call) typed(i int, t engine.DType) {
	if i < len(c.out) {
		c.out[i].Type = t
	}
}

// shaped sets an output's shape.
func (c *call) shaped(i int, shape ...int) {
	if i < len(c.out) {
		c.checkShape(fmt.Sprintf("output %d", i), shape)
		c.out[i].Shape, c.out[i].Rank = slices.Clone(shape), len(shape)
	}
}

// checkShape bounds dimensions and their product, those of 0 left out.
func (c *call) checkShape(what string, shape []int) {
	n := 1
	for _, d := range shape {
		if d < -1 {
			c.fail("%s has the shape %v", what, shape)
		}
		if d > c.limit/n {
			c.fail("%s has the shape %v, which is more than %d elements", what, shape, c.limit)
		}
		n *= max(d, 1)
	}
}

// known says whether all dimensions are.
func known(shape []int) bool { return product(shape) >= 0 }

// product is that of dimensions; -1 if one is not known.
func product(shape []int) int {
	n := 1
	for _, d := range shape {
		if d < 0 {
			return -1
		}
		n *= d
	}
	return n
}

// new is a tensor of zeros of an output's type and shape.
func (c *call) new(i int) *graph.Tensor { return graph.NewTensor(c.out[i].Type, c.out[i].Shape...) }

// floats is an output of these elements.
func (c *call) floats(i int, elements []float64) *graph.Tensor {
	return graph.FromFloats(c.out[i].Type, c.out[i].Shape, elements)
}

// one is the results of an operation of one output.
func one(t *graph.Tensor) []*graph.Tensor { return []*graph.Tensor{t} }

// onFloats runs f on the elements of the inputs, nil of those not given, for those of output 0.
func (c *call) onFloats(f func(in [][]float64) []float64) {
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		elements := make([][]float64, max(len(in), 8)) // as if no optional input were left out at the end
		for i, t := range in {
			if t != nil {
				elements[i] = t.Floats()
			}
		}
		return one(c.floats(0, f(elements)))
	}
}
