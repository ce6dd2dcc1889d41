package move

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/elementwise"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/op"
)

// Scatters are operations that take elements from places, or put them there, which another input tells.
var Scatters = map[string]op.Definition{
	"Gather":          op.Define(gather, op.Anything, 2, 2, 1),
	"GatherElements":  op.Define(gatherElements, op.Anything, 2, 2, 1),
	"GatherND":        op.Define(gatherND, op.Anything, 2, 2, 1),
	"ScatterElements": op.Define(scatterElements, op.Anything, 3, 3, 1),
	"ScatterND":       op.Define(scatterND, op.Anything, 3, 3, 1),
	"Compress":        op.Define(compress, op.Anything, 2, 2, 1),
}

func gather(c *op.Call) {
	c.Elements(1, op.Indices)
	d, at := c.Dims(0), c.Dims(1)
	axis := c.Axis("axis", 0, len(d))
	c.Shaped(0, slices.Concat(d[:axis], at, d[axis+1:])...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		var index []int
		for _, k := range in[1].Ints() {
			index = append(index, c.Place(k, d[axis]))
		}
		return op.One(op.Taken(in[0], axis, index, nil).Reshaped(c.Out[0].Shape...))
	}
}

// elementsAlong gives, for each element of a tensor of shape at, the offset of its place in one of shape d, and the
// stride of axis there, along which an index replaces its own coordinate.
func elementsAlong(d, at []int, axis int) (offset []int, stride int) {
	dense := op.Strides(d)
	stride = dense[axis]
	dense[axis] = 0
	return op.Offsets(at, dense), stride
}

// checkIndexShape checks that an input of indices into input 0 along axis has its rank, and nowhere else more entries.
func checkIndexShape(c *op.Call, i, axis int) []int {
	d, at := c.Dims(0), c.Dims(i)
	ok := len(at) == len(d)
	for k := 0; ok && k < len(d); k++ {
		ok = k == axis || d[k] < 0 || at[k] <= d[k]
	}
	if !ok {
		c.Fail("input %d has shape %v, which does not fit input 0, %v", i, at, d)
	}
	return at
}

func gatherElements(c *op.Call) {
	c.Elements(1, op.Indices)
	d := c.Ranked(0, 1, math.MaxInt)
	axis := c.Axis("axis", 0, len(d))
	at := checkIndexShape(c, 1, axis)
	c.Shaped(0, at...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		out, size := c.New(0), in[0].Type.Size()
		index := in[1].Ints()
		if len(index) == 0 {
			return op.One(out)
		}
		offset, stride := elementsAlong(d, at, axis)
		for i, k := range index {
			from := (offset[i] + c.Place(k, d[axis])*stride) * size
			copy(out.Data[i*size:(i+1)*size], in[0].Data[from:])
		}
		return op.One(out)
	}
}

// coordinateCount is the number of coordinates in each index of input i, for d after batch dimensions.
func coordinateCount(c *op.Call, i, batch int) int {
	d, at := c.Dims(0), c.Ranked(i, 1, math.MaxInt)
	n := at[len(at)-1]
	if n > len(d)-batch || n == 0 {
		c.Fail("input %d has indices of %d coordinates, want at most %d", i, n, len(d)-batch)
	}
	return n
}

func gatherND(c *op.Call) {
	c.Elements(1, op.Indices)
	d, at := c.Dims(0), c.Dims(1)
	batch := c.Int("batch_dims", 0)
	if batch < 0 || batch > min(len(d), len(at)-1) {
		c.Fail("invalid attribute batch_dims %d for inputs %v and %v", batch, d, at)
	}
	n := coordinateCount(c, 1, batch)
	if n < 0 {
		return
	}
	for i := range batch {
		if d[i] >= 0 && at[i] >= 0 && d[i] != at[i] {
			c.Fail("%v and %v differ in batch dimension %d", d, at, i)
		}
	}
	c.Shaped(0, slices.Concat(at[:len(at)-1], d[batch+n:])...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		out := c.New(0)
		chunk := op.Product(d[batch+n:]) * in[0].Type.Size()
		tuples := flatIndices(c, in[1], d[batch:], n)
		each := len(tuples) / max(op.Product(at[:batch]), 1)
		for i, k := range tuples {
			from := k + i/max(each, 1)*op.Product(d[batch:batch+n])
			copy(out.Data[i*chunk:(i+1)*chunk], in[0].Data[from*chunk:])
		}
		return op.One(out)
	}
}

// flatIndices makes one number of each index of n coordinates into the first dimensions of d.
func flatIndices(c *op.Call, index *graph.Tensor, d []int, n int) []int {
	coordinates := index.Ints()
	out := make([]int, len(coordinates)/n)
	for i := range out {
		for k := range n {
			out[i] = out[i]*d[k] + c.Place(coordinates[i*n+k], d[k])
		}
	}
	return out
}

// scatterReduction is how the attribute reduction combines what is there with what is scattered to it; a chunk of elements.
func scatterReduction(c *op.Call, t *graph.Tensor) func(out []byte, update []byte) {
	name := c.Word("reduction", "none", "add", "mul", "min", "max")
	if name == "none" {
		return func(out, update []byte) { copy(out, update) }
	}
	d := elementwise.Binaries[map[string]string{"add": "Add", "mul": "Mul", "min": "Min", "max": "Max"}[name]]
	return func(out, update []byte) {
		shape := []int{len(out) / t.Type.Size()}
		in := []*graph.Tensor{{Type: t.Type, Shape: shape, Data: out}, {Type: t.Type, Shape: shape, Data: update}}
		result, err := d.Eval(&graph.Node{Op: name, Out: []*graph.Value{graph.NewValue("")}}, in)
		if err != nil {
			c.Fail("%v", err)
		}
		copy(out, result[0].Data)
	}
}

func scatterElements(c *op.Call) {
	c.Elements(1, op.Indices)
	c.Same(2)
	d := c.Ranked(0, 1, math.MaxInt)
	axis := c.Axis("axis", 0, len(d))
	at := checkIndexShape(c, 1, axis)
	c.Expect(2, at...)
	c.Shaped(0, d...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		out, size := slices.Clone(in[0].Data), in[0].Type.Size()
		merge, index := scatterReduction(c, in[0]), in[1].Ints()
		if len(index) == 0 {
			return in[:1]
		}
		offset, stride := elementsAlong(d, at, axis)
		for i, k := range index {
			to := (offset[i] + c.Place(k, d[axis])*stride) * size
			merge(out[to:to+size], in[2].Data[i*size:(i+1)*size])
		}
		return op.One(&graph.Tensor{Type: in[0].Type, Shape: d, Data: out})
	}
}

func scatterND(c *op.Call) {
	c.Elements(1, op.Indices)
	c.Same(2)
	d, at := c.Dims(0), c.Dims(1)
	n := coordinateCount(c, 1, 0)
	c.Shaped(0, d...)
	if n < 0 {
		return
	}
	c.Expect(2, slices.Concat(at[:len(at)-1], d[n:])...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		out, merge := slices.Clone(in[0].Data), scatterReduction(c, in[0])
		chunk := op.Product(d[n:]) * in[0].Type.Size()
		for i, k := range flatIndices(c, in[1], d, n) {
			merge(out[k*chunk:(k+1)*chunk], in[2].Data[i*chunk:(i+1)*chunk])
		}
		return op.One(&graph.Tensor{Type: in[0].Type, Shape: d, Data: out})
	}
}

func compress(c *op.Call) {
	d := c.Dims(0)
	c.Elements(1, op.Booleans)
	c.Vector(1)
	axis := 0
	_, along := c.Node.Attrs["axis"]
	if along {
		axis = c.Axis("axis", 0, len(d))
	} else {
		d = []int{op.Product(d)}
	}
	shape := slices.Clone(d)
	shape[axis] = -1
	c.Shaped(0, shape...)
	c.Run = func(in []*graph.Tensor) []*graph.Tensor {
		var index []int
		for i, keep := range in[1].Ints() {
			if keep != 0 && i >= d[axis] {
				c.Fail("invalid index %d: want below %d", i, d[axis])
			}
			if keep != 0 {
				index = append(index, i)
			}
		}
		return op.One(op.Taken(in[0].Reshaped(d...), axis, index, nil))
	}
}
