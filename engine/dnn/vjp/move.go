package vjp

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// Reshape is of all that leave the elements in their order.
var Reshape = unaryGrad(func(w writer, x, _, g *value) *value { return w.reshape(g, x.Shape) })

// Transpose goes back.
var Transpose = unaryGrad(func(w writer, x, _, g *value) *value {
	rank := len(x.Shape)
	back := make([]int64, rank)
	for i := range back {
		back[i] = int64(rank - 1 - i)
	}
	for i, p := range graph.Attr(w.n, "perm", slices.Clone(back)) {
		back[p] = int64(i)
	}
	return w.transpose(g, back)
})

// Concat gives each input its part.
func Concat(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	w, in, at := writer{b, n}, make([]*value, len(n.In)), 0
	along := axisAttribute(n, 0, len(n.Out[0].Shape))
	for i, x := range n.In {
		if w.wantsGrad(i) {
			in[i] = w.partAlong(out[0], along, at, at+x.Shape[along])
		}
		at += x.Shape[along]
	}
	return in, nil
}

// partAlong is a slice of x along one dimension.
func (w writer) partAlong(x *value, along, from, to int) *value {
	if from == 0 && to == x.Shape[along] {
		return x
	}
	return w.Op("Slice", nil, x, w.integerVector(int64(from)), w.integerVector(int64(to)), w.integerVector(int64(along)))
}

// Split joins the parts. What gets no gradient is zeros.
func Split(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	w, x, in := writer{b, n}, n.In[0], make([]*value, len(n.In))
	along, at := axisAttribute(n, 0, len(x.Shape)), 0
	var parts placed
	for i, o := range n.Out {
		if o == nil {
			return nil, fmt.Errorf("output %d of it is not computed", i)
		}
		if out[i] != nil {
			starts := make([]int64, len(x.Shape))
			starts[along] = int64(at)
			parts.addPart(out[i], starts, ones(len(x.Shape)))
		}
		at += o.Shape[along]
	}
	in[0] = parts.buildTensor(w, x.Shape)
	return in, nil
}

func ones(n int) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = 1
	}
	return out
}

// SliceGrad is the operation that places tensors: zeros of the attribute "shape", to which each input is added
// at its places. For input i and dimension d of r, these are "starts"[i*r+d] and every "steps"[i*r+d] on, which
// may be negative.
const SliceGrad = ".SliceGrad"

// placed are tensors and where they go.
type placed struct {
	parts         []*value
	starts, steps []int64
}

// addPart adds a tensor. One that itself consists of placed ones is taken apart.
func (p *placed) addPart(g *value, starts, steps []int64) {
	if g.From == nil || g.From.Op != SliceGrad {
		p.parts = append(p.parts, g)
		p.starts, p.steps = append(p.starts, starts...), append(p.steps, steps...)
		return
	}
	inner, innerSteps := graph.Attr(g.From, "starts", []int64{}), graph.Attr(g.From, "steps", []int64{})
	for i := range g.From.In {
		p.parts = append(p.parts, g.From.In[i])
		for d := range starts {
			j := i*len(starts) + d
			p.starts = append(p.starts, starts[d]+inner[j]*steps[d])
			p.steps = append(p.steps, innerSteps[j]*steps[d])
		}
	}
}

// buildTensor is the tensor of a shape that they make.
func (p *placed) buildTensor(w writer, shape []int) *value {
	return w.Op(SliceGrad, attrs{"shape": toInt64s(shape), "starts": p.starts, "steps": p.steps}, p.parts...)
}

// Total is the sum of gradients that meet at a value. Those that are placed tensors become one node, since they
// often are the parts of a whole.
func Total(b *graph.Builder, gradients []*graph.Value) *graph.Value {
	var parts placed
	var sum, first *value
	count := 0
	for _, g := range gradients {
		switch {
		case g.From != nil && g.From.Op == SliceGrad:
			parts.addPart(g, make([]int64, len(g.Shape)), ones(len(g.Shape)))
			first = g
			count++
		case sum == nil:
			sum = g
		default:
			sum = addFactored(b, sum, g)
		}
	}
	switch {
	case count == 0:
		return sum
	case count > 1:
		first = parts.buildTensor(writer{Builder: b}, first.Shape)
	}
	if sum == nil {
		return first
	}
	return b.Op("Add", nil, sum, first)
}

// addFactored is x + y. Of products with a factor in common, as are both gradients of x Sigmoid(x), it is the sum of the
// other factors times that one.
func addFactored(b *graph.Builder, x, y *value) *value {
	if x.From != nil && y.From != nil && x.From.Op == "Mul" && y.From.Op == "Mul" {
		for i, factor := range x.From.In {
			if k := slices.Index(y.From.In, factor); k >= 0 {
				return b.Op("Mul", nil, b.Op("Add", nil, x.From.In[1-i], y.From.In[1-k]), factor)
			}
		}
	}
	return b.Op("Add", nil, x, y)
}

// Slice puts the gradient back to where the slice was.
func Slice(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	w, x, in := writer{b, n}, n.In[0], make([]*value, len(n.In))
	starts, err := w.constantIntegers(1)
	if err != nil {
		return nil, err
	}
	steps, err := w.constantIntegers(4, ones(len(starts))...)
	if err != nil {
		return nil, err
	}
	axes, err := w.constantIntegers(3, numbersBelow(len(starts))...)
	if err != nil {
		return nil, err
	}
	from, by := make([]int64, len(x.Shape)), ones(len(x.Shape))
	for i, a := range axes {
		a = (a + int64(len(x.Shape))) % int64(len(x.Shape))
		from[a], by[a] = firstOf(starts[i], steps[i], int64(x.Shape[a])), steps[i]
	}
	var parts placed
	parts.addPart(out[0], from, by)
	in[0] = parts.buildTensor(w, x.Shape)
	return in, nil
}

// firstOf is the first element of a slice along a dimension of a size.
func firstOf(start, step, size int64) int64 {
	if start < 0 {
		start += size
	}
	if step < 0 {
		return max(min(start, size-1), 0)
	}
	return max(min(start, size), 0)
}

// PadGrad is the operation that undoes a Pad by elements of the input: it adds to each the gradients of those
// that were made of it. Its inputs are those of the Pad, with the gradient in the place of what was padded, and so
// are its attributes, with the "shape" of the result.
const PadGrad = ".PadGrad"

// Pad takes the padding off again.
func Pad(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	w, x, in := writer{b, n}, n.In[0], make([]*value, len(n.In))
	if graph.Attr(n, "mode", "constant") != "constant" {
		in[0] = w.applyGradOp(PadGrad, out[0])
		return in, nil
	}
	pads, err := w.constantIntegers(1)
	if err != nil {
		return nil, err
	}
	axes, err := w.constantIntegers(3, numbersBelow(len(x.Shape))...)
	if err != nil {
		return nil, err
	}
	in[0] = out[0]
	for i, a := range axes {
		along := int(a+int64(len(x.Shape))) % len(x.Shape)
		in[0] = w.unpadAlong(in[0], along, int(pads[i]), int(pads[i+len(axes)]), x.Shape[along])
	}
	return in, nil
}

// unpadAlong cuts off what was padded along a dimension, and pads with zeros what was cut off.
func (w writer) unpadAlong(g *value, along, before, after, size int) *value {
	from := max(before, 0)
	g = w.partAlong(g, along, from, from+size+min(before, 0)+min(after, 0))
	if before >= 0 && after >= 0 {
		return g
	}
	pads := make([]int64, 2*len(g.Shape))
	pads[along], pads[along+len(g.Shape)] = int64(max(-before, 0)), int64(max(-after, 0))
	return w.Op("Pad", nil, g, w.integerVector(pads...))
}

// Expand sums over what was repeated.
var Expand = unaryGrad(func(w writer, x, _, g *value) *value { return w.sumTo(g, x.Shape) })

// Tile sums over what was repeated.
var Tile = unaryGrad(func(w writer, x, y, g *value) *value {
	var split []int
	var axes []int64
	for i, d := range x.Shape {
		axes = append(axes, int64(2*i))
		if d == 0 {
			return w.zeros(x)
		}
		split = append(split, y.Shape[i]/d, d)
	}
	return w.Op("ReduceSum", attrs{"keepdims": int64(0)}, w.reshape(g, split), w.integerVector(axes...))
})

// Trilu keeps the same triangle.
var Trilu = unaryGrad(func(w writer, _, _, g *value) *value {
	return w.Op("Trilu", attrs{"upper": graph.Attr(w.n, "upper", int64(1))}, g, w.n.Input(1))
})

// SpaceToDepth goes back.
var SpaceToDepth = unaryGrad(func(w writer, _, _, g *value) *value {
	return w.Op("DepthToSpace", attrs{"blocksize": w.n.Attrs["blocksize"]}, g)
})

// DepthToSpace goes back, in its other mode by parts.
var DepthToSpace = unaryGrad(func(w writer, x, _, g *value) *value {
	if graph.Attr(w.n, "mode", "DCR") != "CRD" {
		return w.Op("SpaceToDepth", attrs{"blocksize": w.n.Attrs["blocksize"]}, g)
	}
	block := int(graph.Attr(w.n, "blocksize", int64(1)))
	parts := []int{g.Shape[0], g.Shape[1], x.Shape[2], block, x.Shape[3], block}
	return w.reshape(w.transpose(w.reshape(g, parts), []int64{0, 1, 3, 5, 2, 4}), x.Shape)
})

// ReverseSequence turns round again.
var ReverseSequence = unaryGrad(func(w writer, _, _, g *value) *value {
	return w.Op("ReverseSequence", w.n.Attrs, g, w.n.In[1])
})

// CenterCropPad pads what it cropped, and crops what it padded.
var CenterCropPad = unaryGrad(func(w writer, x, _, g *value) *value {
	return w.Op("CenterCropPad", nil, g, w.integerVector(toInt64s(x.Shape)...))
})
