package vjp

import (
	"fmt"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// GatherGrad is the operation that undoes a Gather: of a gradient and the indices it makes a tensor of the
// attribute "shape", zeros to which each slice of the gradient is added at its index along "axis".
const GatherGrad = ".GatherGrad"

// gatherGrad is the gradient of what was gathered along a dimension.
func (w writer) gatherGrad(g, indices *value, along int, shape []int) *value {
	return w.Op(GatherGrad, attrs{"axis": int64(along), "shape": toInt64s(shape)}, g, indices)
}

// Gather adds what was read more than once. Indices that are a constant progression are a slice, and a
// permutation is gathered back.
func Gather(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	w, x := writer{b, n}, n.In[0]
	along := axisAttribute(n, 0, len(x.Shape))
	if c := n.In[1].Const; c != nil && c.Len() > 0 {
		if d := w.constantGatherGrad(x, out[0], along, c.Ints()); d != nil {
			return []*value{d, nil}, nil
		}
	}
	return []*value{w.gatherGrad(out[0], n.In[1], along, x.Shape), nil}, nil
}

// constantGatherGrad is the gradient for some constant indices, or nil.
func (w writer) constantGatherGrad(x, g *value, along int, indices []int64) *value {
	size := int64(x.Shape[along])
	flat := append([]int{}, x.Shape...)
	flat[along] = len(indices)
	back := make([]int64, size)
	reached, step := int64(0), int64(1)
	for i := range indices {
		if indices[i] < 0 {
			indices[i] += size
		}
		if indices[i] < 0 || indices[i] >= size {
			return nil
		}
		if back[indices[i]] == 0 {
			back[indices[i]] = int64(i) + 1
			reached++
		}
	}
	if len(indices) > 1 {
		step = indices[1] - indices[0]
	}
	for i := range indices {
		if step == 0 || indices[i] != indices[0]+int64(i)*step {
			step = 0
		}
	}
	switch {
	case step != 0:
		starts, steps := make([]int64, len(x.Shape)), ones(len(x.Shape))
		starts[along], steps[along] = indices[0], step
		var parts placed
		parts.addPart(w.reshape(g, flat), starts, steps)
		return parts.buildTensor(w, x.Shape)
	case reached == size && len(indices) == int(size):
		for i := range back {
			back[i]--
		}
		return w.Op("Gather", attrs{"axis": int64(along)}, w.reshape(g, flat), w.integerVector(back...))
	}
	return nil
}

// scatterToZeros is zeros of like's shape, to which elements are added at their indices along a dimension.
func (w writer) scatterToZeros(like, indices, elements *value, along int) *value {
	a := attrs{"axis": int64(along), "reduction": "add"}
	return w.Op("ScatterElements", a, w.zeros(like), indices, elements)
}

// GatherElements adds what was read more than once.
func GatherElements(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	w, x := writer{b, n}, n.In[0]
	return []*value{w.scatterToZeros(x, n.In[1], out[0], axisAttribute(n, 0, len(x.Shape))), nil}, nil
}

// GatherND adds what was read more than once.
func GatherND(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	w, indices := writer{b, n}, n.In[1]
	if batch := int(graph.Attr(n, "batch_dims", int64(0))); batch > 0 {
		if indices.Const == nil {
			return nil, fmt.Errorf("got batch_dims with computed indices: its gradient wants constant indices")
		}
		indices = w.withBatch(indices.Const, batch)
	}
	d := w.Op("ScatterND", attrs{"reduction": "add"}, w.zeros(n.In[0]), indices, out[0])
	return []*value{d, nil}, nil
}

// withBatch is indices with the coordinates of their batch before their own.
func (w writer) withBatch(indices *graph.Tensor, batch int) *value {
	last := len(indices.Shape) - 1
	own, elements := indices.Shape[last], indices.Ints()
	each := graph.Elements(indices.Shape[batch:last]) // indices in a batch
	var all []int64
	for i := range graph.Elements(indices.Shape[:last]) {
		at := make([]int64, batch)
		for d, rest := batch-1, i/each; d >= 0; d-- {
			at[d], rest = int64(rest%indices.Shape[d]), rest/indices.Shape[d]
		}
		all = append(append(all, at...), elements[i*own:(i+1)*own]...)
	}
	shape := append(append([]int{}, indices.Shape[:last]...), batch+own)
	return w.Const("indices", graph.FromInts(engine.Int64, shape, all))
}

// ScatterElements takes from the gradient what was replaced or added.
func ScatterElements(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	a := attrs{"axis": graph.Attr(n, "axis", int64(0))}
	return scatterGrad(writer{b, n}, out[0], "GatherElements", a)
}

// ScatterND takes from the gradient what was replaced or added.
func ScatterND(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	return scatterGrad(writer{b, n}, out[0], "GatherND", nil)
}

// scatterGrad is of both. What was replaced is zeroed by the same scattering.
func scatterGrad(w writer, g *value, gather string, a attrs) ([]*value, error) {
	in := []*value{g, nil, nil}
	switch reduction := graph.Attr(w.n, "reduction", "none"); reduction {
	case "add":
	case "none":
		in[0] = w.Op(w.n.Op, w.n.Attrs, g, w.n.In[1], w.zeros(w.n.In[2]))
	default:
		return nil, fmt.Errorf("got reduction %q: it has no gradient", reduction)
	}
	if w.wantsGrad(2) {
		in[2] = w.Op(gather, a, g, w.n.In[1])
	}
	return in, nil
}

// TopK puts the gradient to the places of the elements that were chosen.
func TopK(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	w, x := writer{b, n}, n.In[0]
	if n.Output(1) == nil {
		v := graph.NewValue(b.Fresh(n.Name + "_indices"))
		v.Set(engine.Int64, n.Out[0].Shape)
		v.From = n
		n.Out = []*value{n.Out[0], v}
	}
	return []*value{w.scatterToZeros(x, n.Out[1], out[0], axisAttribute(n, -1, len(x.Shape))), nil}, nil
}

// MaxUnpool reads back from where it put the elements.
func MaxUnpool(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	w, indices, in := writer{b, n}, n.In[1], make([]*value, len(n.In))
	flat := w.reshape(out[0], []int{graph.Elements(out[0].Shape)})
	in[0] = w.Op("Gather", attrs{"axis": int64(0)}, flat, indices)
	return in, nil
}
