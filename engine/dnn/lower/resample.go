package lower

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/spatial"
	"github.com/prefillonly/prefillonly/kernels"
)

// resampleLowerings are those of nodes that make elements of others along a dimension, and of what undoes them.
func resampleLowerings() map[string]func(t *translator, n *graph.Node) *Value {
	return map[string]func(t *translator, n *graph.Node) *Value{
		"Resize": resize, ".ResizeGrad": resizeGrad,
		"Gather": gather, ".GatherGrad": gatherGrad,
		".PadGrad": padGrad,
	}
}

// taps are of size outputs: of each, the inputs and their weights.
func tapsOf(size int, of func(i int) (places []int, weights []float64)) kernels.Taps {
	taps := kernels.Taps{Start: make([]int32, 1, size+1)}
	for i := range size {
		places, weights := of(i)
		for j, place := range places {
			taps.Index = append(taps.Index, int32(place))
			taps.Weight = append(taps.Weight, float32(weights[j]))
		}
		taps.Start = append(taps.Start, int32(len(taps.Index)))
	}
	return taps
}

// pickTaps are taps that take one element each.
func pickTaps(places []int) kernels.Taps {
	return tapsOf(len(places), func(i int) ([]int, []float64) { return places[i : i+1], []float64{1} })
}

// transposeTaps are taps that give each of size inputs what the outputs took of it.
func transposeTaps(t kernels.Taps, size int) kernels.Taps {
	places, weights := make([][]int, size), make([][]float64, size)
	for i := range len(t.Start) - 1 {
		for j := t.Start[i]; j < t.Start[i+1]; j++ {
			at := t.Index[j]
			places[at], weights[at] = append(places[at], i), append(weights[at], float64(t.Weight[j]))
		}
	}
	return tapsOf(size, func(i int) ([]int, []float64) { return places[i], weights[i] })
}

// interpolate applies taps along dimension d of x.
func (t *translator) interpolate(x *Value, d int, taps kernels.Taps) *Value {
	shape := slices.Clone(x.Shape)
	shape[d] = len(taps.Start) - 1
	return t.addOp(&Interpolate{Dim: d, Taps: taps}, x.Type, shape, x)
}

// resizeTaps are those of a Resize's dimensions, or nil if they are not all.
func resizeTaps(n *graph.Node) (dims []int, taps []kernels.Taps) {
	list, ok, err := spatial.ResizeTaps(n)
	if !ok || err != nil {
		return nil, nil
	}
	for _, t := range list {
		dims = append(dims, t.Axis)
		taps = append(taps, tapsOf(len(t.Start)-1, func(i int) ([]int, []float64) {
			from, to := t.Start[i], t.Start[i+1]
			return t.Index[from:to], t.Weight[from:to]
		}))
	}
	return dims, taps
}

// resize interpolates along each dimension, but where all of them are repeated whole.
func resize(t *translator, n *graph.Node) *Value {
	x := t.translatedValue(n.In[0])
	dims, taps := resizeTaps(n)
	if x.Const != nil || dims == nil {
		return nil
	}
	if v := t.repeatElements(x, dims, taps); v != nil {
		return v
	}
	for i, d := range dims {
		x = t.interpolate(x, d, taps[i])
	}
	return x
}

// repeatElements is x with each element repeated along dimensions, as one copy, if that is all that taps do.
func (t *translator) repeatElements(x *Value, dims []int, taps []kernels.Taps) *Value {
	times := slices.Repeat([]int{1}, len(x.Shape))
	for i, d := range dims {
		if times[d] = repeatCount(taps[i], x.Shape[d]); times[d] == 0 {
			return nil
		}
	}
	var apart, wide, shape []int
	for d, size := range x.Shape {
		apart, wide, shape = append(apart, size), append(wide, size), append(shape, size*times[d])
		if times[d] > 1 {
			apart, wide = append(apart, 1), append(wide, times[d])
		}
	}
	if len(apart) > kernels.MaxDims {
		return nil
	}
	return t.reshape(t.expand(t.reshape(x, apart...), wide...), shape...)
}

// repeatCount is how often taps repeat each of size elements; 0: that is not what they do.
func repeatCount(t kernels.Taps, size int) int {
	by := (len(t.Start) - 1) / size
	if by < 1 || len(t.Index) != size*by || len(t.Start) != size*by+1 {
		return 0
	}
	for i, at := range t.Index {
		if int(t.Start[i]) != i || int(at) != i/by || t.Weight[i] != 1 {
			return 0
		}
	}
	return by
}

// resizeGrad applies the taps of what it undoes, transposed and in the other order.
func resizeGrad(t *translator, n *graph.Node) *Value {
	x := t.translatedValue(n.In[0])
	dims, taps := resizeTaps(forwardNode(n, "Resize"))
	if x.Const != nil || dims == nil {
		return nil
	}
	for i, d := range slices.Backward(dims) {
		x = t.interpolate(x, d, transposeTaps(taps[i], n.Out[0].Shape[d]))
	}
	return x
}

// forwardNode is the node of an operation whose gradient n computes, n's input 0 being the gradient of its output.
func forwardNode(n *graph.Node, op string) *graph.Node {
	return &graph.Node{Name: n.Name, Op: op, In: append([]*graph.Value{n.Out[0]}, n.In[1:]...), Out: n.In[:1], Attrs: n.Attrs}
}

// constantIndices are the constant ones of input 1, of a dimension of size; nil: they are not constant, or wrong.
func constantIndices(n *graph.Node, size int) []int {
	list, _ := constantInts(n, 1)
	for i, at := range list {
		if list[i] = axis(at, size); list[i] < 0 || list[i] >= size {
			return nil
		}
	}
	return list
}

// gather takes constant indices: one by a slice, more by taps.
func gather(t *translator, n *graph.Node) *Value {
	x := t.translatedValue(n.In[0])
	d := axis(attrInt(n, "axis", 0), len(x.Shape))
	list := constantIndices(n, x.Shape[d])
	switch {
	case list == nil || x.Const != nil:
		return nil
	case len(list) == 1:
		start, shape := make([]int, len(x.Shape)), slices.Clone(x.Shape)
		start[d], shape[d] = list[0], 1
		x = t.sliceFrom(x, start, shape)
	default:
		x = t.interpolate(x, d, pickTaps(list))
	}
	return t.reshape(x, n.Out[0].Shape...)
}

func gatherGrad(t *translator, n *graph.Node) *Value {
	x, shape := t.translatedValue(n.In[0]), n.Out[0].Shape
	d := axis(attrInt(n, "axis", 0), len(shape))
	list := constantIndices(n, shape[d])
	if list == nil || x.Const != nil {
		return nil
	}
	flat := slices.Clone(shape)
	flat[d] = len(list)
	return t.interpolate(t.reshape(x, flat...), d, transposeTaps(pickTaps(list), shape[d]))
}

func padGrad(t *translator, n *graph.Node) *Value {
	x := t.translatedValue(n.In[0])
	forward := forwardNode(n, "Pad")
	before, _, ok := padSizes(forward)
	if !ok || x.Const != nil {
		return nil
	}
	mode := graph.Attr(n, "mode", "constant")
	for d, size := range n.Out[0].Shape {
		if before[d] == 0 && x.Shape[d] == size {
			continue
		}
		places := paddingIndices(mode, before[d], size, x.Shape[d])
		if places == nil {
			return nil
		}
		x = t.interpolate(x, d, transposeTaps(pickTaps(places), size))
	}
	return x
}

// paddingIndices is which of size elements each of so many is after some were put before them; nil: not by that mode.
func paddingIndices(mode string, before, size, padded int) []int {
	places := make([]int, padded)
	for i := range places {
		at := i - before
		switch mode {
		case "edge":
			at = min(max(at, 0), size-1)
		case "wrap":
			at = ((at % size) + size) % size
		case "reflect":
			period := max(1, 2*(size-1))
			if at = ((at % period) + period) % period; at >= size {
				at = period - at
			}
		default:
			return nil
		}
		places[i] = at
	}
	return places
}
