// Package op applies the definition of an operation: to values of which types and shapes may be known, or to tensors.
package op

import (
	"fmt"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// Call is an operation applied to inputs: to values of which types and shapes may be known, for Infer, or to
// tensors, which are constants, for Eval. What it finds wrong it panics with, as a failure, which infer and eval
// recover from.
type Call struct {
	Node  *graph.Node
	In    []*graph.Value // nil: not given
	Out   []*graph.Value
	Limit int // the most elements of an output
	// evaluates says that this is for Eval, where all is known.
	Evaluates bool
	Run       func(in []*graph.Tensor) []*graph.Tensor
}

// The most elements a tensor may have: as a value of a graph, and as a result of Eval.
const (
	MaxElements     = 1 << 31
	MaxEvalElements = 1 << 26
)

// MaxRank is the most dimensions that a tensor may have.
const MaxRank = 64

// Definition says how an operation is applied, and to what.
type Definition struct {
	Apply        func(*Call)
	Types        Kinds // of the first input
	fewest, most int   // inputs
	outputs      int   // at most
}

// Define makes a definition.
func Define(apply func(*Call), types Kinds, fewest, most, outputs int) Definition {
	return Definition{apply, types, fewest, most, outputs}
}

// Many is a number of inputs or outputs without a bound.
const Many = math.MaxInt

// failure is an error on its way out of a call; unknown ends a call that needs what is not known yet.
type (
	failure struct{ error }
	Unknown struct{}
)

// Infer sets the types and shapes of a node's outputs.
func (d Definition) Infer(n *graph.Node) error {
	c := &Call{Node: n, In: n.In, Limit: MaxElements}
	err := c.Attempt(func() {
		d.Check(c, len(n.Out))
		d.Apply(c)
	})
	if err != nil {
		return err
	}
	for i, v := range n.Out {
		if v != nil {
			v.Type, v.Shape, v.Rank = c.Out[i].Type, c.Out[i].Shape, c.Out[i].Rank
		}
	}
	return nil
}

// Eval computes outputs.
func (d Definition) Eval(n *graph.Node, in []*graph.Tensor) (out []*graph.Tensor, err error) {
	c := &Call{Node: n, In: make([]*graph.Value, len(in)), Limit: MaxEvalElements, Evaluates: true}
	for i, t := range in {
		if t != nil {
			c.In[i] = graph.NewConst("", t)
		}
	}
	err = c.Attempt(func() {
		c.CheckData(in)
		d.Check(c, len(n.Out))
		d.Apply(c)
		if c.Run == nil {
			c.Fail("inputs are not supported")
		}
		out = c.Run(in)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Attempt calls f and returns the failure it ends with.
func (c *Call) Attempt(f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil, Unknown:
		case failure:
			err = fmt.Errorf("%v: %w", c.Node, p.error)
		default:
			panic(p)
		}
	}()
	f()
	return nil
}

// Check checks the numbers of inputs and outputs, and gives outputs the type of input 0, which the operation may change.
func (d Definition) Check(c *Call, outputs int) {
	if n := len(c.In); n < d.fewest || n > d.most {
		c.Fail("got %d inputs, want %s", n, rangeText(d.fewest, d.most))
	}
	if outputs < 1 || outputs > d.outputs {
		c.Fail("got %d outputs, want %s", outputs, rangeText(1, d.outputs))
	}
	for i, v := range c.In {
		if v == nil && (i < d.fewest || d.most == Many) {
			c.Fail("missing input %d", i)
		}
		if v != nil && v.Rank >= 0 {
			c.CheckShape(fmt.Sprintf("input %d", i), v.Shape)
		}
	}
	c.Out = make([]*graph.Value, outputs)
	for i := range c.Out {
		c.Out[i] = graph.NewValue("")
	}
	if len(c.In) > 0 && c.In[0] != nil {
		c.Elements(0, d.Types)
		for _, v := range c.Out {
			v.Type = c.In[0].Type
		}
	}
}

func rangeText(least, most int) string {
	switch {
	case most == Many:
		return fmt.Sprintf("%d or more", least)
	case least == most:
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// Fail ends the call with an error.
func (c *Call) Fail(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// Has says whether an optional input is given.
func (c *Call) Has(i int) bool { return i < len(c.In) && c.In[i] != nil }

// Dims is the shape of an input. The call ends if not even the rank is known.
func (c *Call) Dims(i int) []int {
	if c.In[i].Rank < 0 {
		panic(Unknown{})
	}
	return c.In[i].Shape
}

// Ranked is the shape of an input whose rank lies in a range.
func (c *Call) Ranked(i, least, most int) []int {
	d := c.Dims(i)
	if len(d) < least || len(d) > most {
		c.Fail("input %d has %d dimensions, want %s", i, len(d), rangeText(least, most))
	}
	return d
}

// Vector is the number of elements of an input of one dimension, -1 if that is not known.
func (c *Call) Vector(i int) int { return c.Ranked(i, 1, 1)[0] }

// Elements checks the type of an input, if it is known.
func (c *Call) Elements(i int, of Kinds) engine.DType {
	t := c.In[i].Type
	if t != 0 && !of.Have(t) {
		c.Fail("input %d has elements of %v, want %v", i, t, of)
	}
	return t
}

// Same checks that inputs which are given have the type of input 0.
func (c *Call) Same(inputs ...int) {
	for _, i := range inputs {
		if c.Has(i) && c.In[i].Type != 0 && c.In[0].Type != 0 && c.In[i].Type != c.In[0].Type {
			c.Fail("input %d has elements of %v, input 0 of %v: want equal types", i, c.In[i].Type, c.In[0].Type)
		}
	}
}

// Expect checks the dimensions of an input that are known, where want has them too.
func (c *Call) Expect(i int, want ...int) {
	if c.In[i].Rank < 0 {
		return
	}
	if got := c.In[i].Shape; !Fits(got, want) {
		c.Fail("input %d has shape %v, want %v", i, got, want)
	}
}

// Ints is the elements of an integer input that is a constant; ok is false if it is none. In Eval all are.
func (c *Call) Ints(i int) (values []int, ok bool) {
	t := c.In[i].Const
	c.Elements(i, Integers)
	if t == nil {
		return nil, false
	}
	c.CheckData([]*graph.Tensor{t})
	for _, v := range t.Ints() {
		values = append(values, int(v))
	}
	return values, true
}

// Scalar is the one element of an input that is a constant; ok is false if it is none.
func (c *Call) Scalar(i int) (value float64, ok bool) {
	t := c.In[i].Const
	if c.In[i].Rank >= 0 && !slices.Contains([]int{1, -1}, Product(c.In[i].Shape)) {
		c.Fail("input %d has shape %v, want one element", i, c.In[i].Shape)
	}
	if t == nil {
		return 0, false
	}
	c.CheckData([]*graph.Tensor{t})
	return t.Floats()[0], true
}

// CheckData checks that tensors have the bytes that their shapes tell.
func (c *Call) CheckData(in []*graph.Tensor) {
	for i, t := range in {
		if t == nil {
			continue
		}
		c.CheckShape(fmt.Sprintf("input %d", i), t.Shape)
		want := graph.Elements(t.Shape) * t.Type.Size()
		if t.Type.Size() == 0 || len(t.Data) != want && (t.Data != nil || !readsShape[c.Node.Op]) {
			c.Fail("input %d, %v, has %d bytes, want %d", i, t, len(t.Data), want)
		}
	}
}

// readsShape are the operations that read no data.
var readsShape = map[string]bool{"Shape": true, "Size": true}

// Typed sets an output's type.
func (c *Call) Typed(i int, t engine.DType) {
	if i < len(c.Out) {
		c.Out[i].Type = t
	}
}

// Shaped sets an output's shape.
func (c *Call) Shaped(i int, shape ...int) {
	if i < len(c.Out) {
		c.CheckShape(fmt.Sprintf("output %d", i), shape)
		c.Out[i].Shape, c.Out[i].Rank = slices.Clone(shape), len(shape)
	}
}

// CheckShape bounds the number of dimensions, them and their product, those of 0 left out.
func (c *Call) CheckShape(what string, shape []int) {
	if len(shape) > MaxRank {
		c.Fail("%s has %d dimensions, want at most %d", what, len(shape), MaxRank)
	}
	n := 1
	for _, d := range shape {
		if d < -1 {
			c.Fail("%s has invalid shape %v", what, shape)
		}
		if d > c.Limit/n {
			c.Fail("%s has shape %v, want at most %d elements", what, shape, c.Limit)
		}
		n *= max(d, 1)
	}
}

// Fits says whether two shapes are equal, as far as they are known.
func Fits(a, b []int) bool {
	return slices.EqualFunc(a, b, func(m, n int) bool { return m == n || m < 0 || n < 0 })
}

// Known says whether all dimensions are.
func Known(shape []int) bool { return Product(shape) >= 0 }

// Product is that of dimensions; -1 if one is not known.
func Product(shape []int) int {
	n := 1
	for _, d := range shape {
		if d < 0 {
			return -1
		}
		n *= d
	}
	return n
}

// New is a tensor of zeros of an output's type and shape.
func (c *Call) New(i int) *graph.Tensor { return graph.NewTensor(c.Out[i].Type, c.Out[i].Shape...) }

// Floats is an output of these elements.
func (c *Call) Floats(i int, elements []float64) *graph.Tensor {
	return graph.FromFloats(c.Out[i].Type, c.Out[i].Shape, elements)
}

// One is the results of an operation of one output.
func One(t *graph.Tensor) []*graph.Tensor { return []*graph.Tensor{t} }

// OnFloats runs f on the elements of the inputs, nil of those not given, for those of output 0.
func (c *Call) OnFloats(f func(in [][]float64) []float64) {
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		elements := make([][]float64, max(len(in), 8)) // as if no optional input were left out at the end
		for i, t := range in {
			if t != nil {
				elements[i] = t.Floats()
			}
		}
		return One(c.Floats(0, f(elements)))
	}
}
