package ops

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// scatters are operations that take elements from places, or put them there, which another input tells.
var scatters = map[string]definition{
	"Gather":          {gather, anything, 2, 2, 1},
	"GatherElements":  {gatherElements, anything, 2, 2, 1},
	"GatherND":        {gatherND, anything, 2, 2, 1},
	"ScatterElements": {scatterElements, anything, 3, 3, 1},
	"ScatterND":       {scatterND, anything, 3, 3, 1},
	"Compress":        {compress, anything, 2, 2, 1},
}

// place is an index from -n to n-1 as one from 0.
func (c *call) place(index int64, n int) int {
	if index < -int64(n) || index >= int64(n) {
		c.fail("index %d, of %d entries", index, n)
	}
	if index < 0 {
		index += int64(n)
	}
	return int(index)
}

func gather(c *call) {
	c.elements(1, indices)
	d, at := c.dims(0), c.dims(1)
	axis := c.axis("axis", 0, len(d))
	c.shaped(0, slices.Concat(d[:axis], at, d[axis+1:])...)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		var index []int
		for _, k := range in[1].Ints() {
			index = append(index, c.place(k, d[axis]))
		}
		return one(taken(in[0], axis, index, nil).Reshaped(c.out[0].Shape...))
	}
}

// elementsAlong gives, for each element of a tensor of shape at, the offset of its place in one of shape d, and the
// stride of axis there, along which an index replaces its own coordinate.
func elementsAlong(d, at []int, axis int) (offset []int, stride int) {
	dense := strides(d)
	stride = dense[axis]
	dense[axis] = 0
	return offsets(at, dense), stride
}

// alike checks that an input of indices into input 0 along axis has its rank, and nowhere else more entries.
func (c *call) alike(i, axis int) []int {
	d, at := c.dims(0), c.dims(i)
	ok := len(at) == len(d)
	for k := 0; ok && k < len(d); k++ {
		ok = k == axis || d[k] < 0 || at[k] <= d[k]
	}
	if !ok {
		c.fail("input %d has the shape %v, and input 0 %v", i, at, d)
	}
	return at
}

func gatherElements(c *call) {
	c.elements(1, indices)
	d := c.ranked(0, 1, math.MaxInt)
	axis := c.axis("axis", 0, len(d))
	at := c.alike(1, axis)
	c.shaped(0, at...)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		out, size := c.new(0), in[0].Type.Size()
		index := in[1].Ints()
		if len(index) == 0 {
			return one(out)
		}
		offset, stride := elementsAlong(d, at, axis)
		for i, k := range index {
			from := (offset[i] + c.place(k, d[axis])*stride) * size
			copy(out.Data[i*size:(i+1)*size], in[0].Data[from:])
		}
		return one(out)
	}
}

// tuples is the number of coordinates in each index of input i, for d after batch dimensions.
func (c *call) tuples(i, batch int) int {
	d, at := c.dims(0), c.ranked(i, 1, math.MaxInt)
	n := at[len(at)-1]
	if n > len(d)-batch || n == 0 {
		c.fail("input %d has indices of %d coordinates, for %d dimensions", i, n, len(d)-batch)
	}
	return n
}

func gatherND(c *call) {
	c.elements(1, indices)
	d, at := c.dims(0), c.dims(1)
	batch := c.int("batch_dims", 0)
	if batch < 0 || batch > min(len(d), len(at)-1) {
		c.fail("attribute batch_dims is %d, of %v and %v", batch, d, at)
	}
	n := c.tuples(1, batch)
	if n < 0 {
		return
	}
	for i := range batch {
		if d[i] >= 0 && at[i] >= 0 && d[i] != at[i] {
			c.fail("%v and %v differ in batch dimension %d", d, at, i)
		}
	}
	c.shaped(0, slices.Concat(at[:len(at)-1], d[batch+n:])...)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		out := c.new(0)
		chunk := product(d[batch+n:]) * in[0].Type.Size()
		tuples := c.flat(in[1], d[batch:], n)
		each := len(tuples) / max(product(at[:batch]), 1)
		for i, k := range tuples {
			from := k + i/max(each, 1)*product(d[batch:batch+n])
			copy(out.Data[i*chunk:(i+1)*chunk], in[0].Data[from*chunk:])
		}
		return one(out)
	}
}

// flat makes one number of each index of n coordinates into the first dimensions of d.
func (c *call) flat(index *graph.Tensor, d []int, n int) []int {
	coordinates := index.Ints()
	out := make([]int, len(coordinates)/n)
	for i := range out {
		for k := range n {
			out[i] = out[i]*d[k] + c.place(coordinates[i*n+k], d[k])
		}
	}
	return out
}

// merged is how the attribute reduction combines what is there with what is scattered to it; a chunk of elements.
func (c *call) merged(t *graph.Tensor) func(out []byte, update []byte) {
	name := c.word("reduction", "none", "add", "mul", "min", "max")
	if name == "none" {
		return func(out, update []byte) { copy(out, update) }
	}
	d := binaries[map[string]string{"add": "Add", "mul": "Mul", "min": "Min", "max": "Max"}[name]]
	return func(out, update []byte) {
		shape := []int{len(out) / t.Type.Size()}
		in := []*graph.Tensor{{Type: t.Type, Shape: shape, Data: out}, {Type: t.Type, Shape: shape, Data: update}}
		result, err := d.eval(&graph.Node{Op: name, Out: []*graph.Value{graph.NewValue("")}}, in)
		if err != nil {
			c.fail("%v", err)
		}
		copy(out, result[0].Data)
	}
}

func scatterElements(c *call) {
	c.elements(1, indices)
	c.same(2)
	d := c.ranked(0, 1, math.MaxInt)
	axis := c.axis("axis", 0, len(d))
	at := c.alike(1, axis)
	c.expect(2, at...)
	c.shaped(0, d...)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		out, size := slices.Clone(in[0].Data), in[0].Type.Size()
		merge, index := c.merged(in[0]), in[1].Ints()
		if len(index) == 0 {
			return in[:1]
		}
		offset, stride := elementsAlong(d, at, axis)
		for i, k := range index {
			to := (offset[i] + c.place(k, d[axis])*stride) * size
			merge(out[to:to+size], in[2].Data[i*size:(i+1)*size])
		}
		return one(&graph.Tensor{Type: in[0].Type, Shape: d, Data: out})
	}
}

func scatterND(c *call) {
	c.elements(1, indices)
	c.same(2)
	d, at := c.dims(0), c.dims(1)
	n := c.tuples(1, 0)
	c.shaped(0, d...)
	if n < 0 {
		return
	}
	c.expect(2, slices.Concat(at[:len(at)-1], d[n:])...)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		out, merge := slices.Clone(in[0].Data), c.merged(in[0])
		chunk := product(d[n:]) * in[0].Type.Size()
		for i, k := range c.flat(in[1], d, n) {
			merge(out[k*chunk:(k+1)*chunk], in[2].Data[i*chunk:(i+1)*chunk])
		}
		return one(&graph.Tensor{Type: in[0].Type, Shape: d, Data: out})
	}
}

func compress(c *call) {
	d := c.dims(0)
	c.elements(1, booleans)
	c.vector(1)
	axis := 0
	_, along := c.node.Attrs["axis"]
	if along {
		axis = c.axis("axis", 0, len(d))
	} else {
		d = []int{product(d)}
	}
	shape := slices.Clone(d)
	shape[axis] = -1
	c.shaped(0, shape...)
	c.run = func(in []*graph.Tensor) []*graph.Tensor {
		var index []int
		for i, keep := range in[1].Ints() {
			if keep != 0 && i >= d[axis] {
				c.fail("entry %d is chosen, of %d", i, d[axis])
			}
			if keep != 0 {
				index = append(index, i)
			}
		}
		return one(taken(in[0].Reshaped(d...), axis, index, nil))
	}
}
