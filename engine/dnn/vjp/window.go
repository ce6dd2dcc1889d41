package vjp

import (
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// window is where a node's kernel goes over the spatial dimensions of the larger of its tensors.
type window struct {
	kernel, strides, dilations []int64
	before, after              []int64 // padding
}

// windowOf reads a node's attributes; small has a place for each position of the kernel on large. The padding of
// auto_pad and of an output's shape follows from their shapes.
func windowOf(n *graph.Node, kernel []int, large, small *value) window {
	dims := len(large.Shape) - 2
	k := window{
		kernel:    graph.Attr(n, "kernel_shape", toInt64s(kernel)),
		strides:   graph.Attr(n, "strides", ones(dims)),
		dilations: graph.Attr(n, "dilations", ones(dims)),
	}
	pads := graph.Attr(n, "pads", make([]int64, 2*dims))
	k.before, k.after = pads[:dims:dims], pads[dims:]
	auto := graph.Attr(n, "auto_pad", "NOTSET")
	if graph.Attr(n, "output_shape", []int64(nil)) == nil && auto != "SAME_UPPER" && auto != "SAME_LOWER" {
		return k
	}
	k.before, k.after = make([]int64, dims), make([]int64, dims)
	extra := graph.Attr(n, "output_padding", make([]int64, dims))
	for i := range dims {
		total := max(k.coveredSize(i, small)+extra[i]-int64(large.Shape[i+2]), 0)
		k.before[i], k.after[i] = total-total/2, total/2
		if auto == "SAME_UPPER" {
			k.before[i], k.after[i] = total/2, total-total/2
		}
	}
	return k
}

// coveredSize is the size of what the kernel covers along a spatial dimension, with the padding.
func (k *window) coveredSize(i int, small *value) int64 {
	return (int64(small.Shape[i+2])-1)*k.strides[i] + (k.kernel[i]-1)*k.dilations[i] + 1
}

// nodeAttrs are the attributes of a node with this window.
func (k *window) nodeAttrs() attrs {
	return attrs{
		"kernel_shape": k.kernel, "strides": k.strides, "dilations": k.dilations,
		"pads": append(append([]int64{}, k.before...), k.after...),
	}
}

// Conv is transposed, with the same weights. The gradient of its bias is a sum.
func Conv(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	w, x, weights, in := writer{b, n}, n.In[0], n.In[1], make([]*value, len(n.In))
	k := windowOf(n, weights.Shape[2:], x, n.Out[0])
	left := make([]int64, len(k.kernel)) // what no position of the kernel reaches
	for i := range left {
		left[i] = int64(x.Shape[i+2]) + k.before[i] + k.after[i] - k.coveredSize(i, n.Out[0])
	}
	a := k.nodeAttrs()
	a["group"], a["output_padding"] = graph.Attr(n, "group", int64(1)), left
	in[0] = w.Op("ConvTranspose", a, out[0], weights)
	if w.wantsGrad(1) {
		in[1] = w.filterGrad(&k, x, out[0], weights.Shape)
	}
	if w.wantsGrad(2) {
		in[2] = w.channelSum(out[0])
	}
	return in, nil
}

// ConvTranspose is a convolution, with the same weights, whose gradient is that of a convolution from its output to its input.
func ConvTranspose(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	w, x, weights, in := writer{b, n}, n.In[0], n.In[1], make([]*value, len(n.In))
	k := windowOf(n, weights.Shape[2:], n.Out[0], x)
	a := k.nodeAttrs()
	a["group"] = graph.Attr(n, "group", int64(1))
	in[0] = w.Op("Conv", a, out[0], weights)
	if w.wantsGrad(1) {
		in[1] = w.filterGrad(&k, out[0], x, weights.Shape)
	}
	if w.wantsGrad(2) {
		in[2] = w.channelSum(out[0])
	}
	// Where output_padding is a stride or more, the kernel has further positions.
	for i := 2; i < len(in[0].Shape); i++ {
		in[0] = w.partAlong(in[0], i, 0, x.Shape[i])
	}
	return in, nil
}

// MaxPoolGrad is the operation that undoes a MaxPool: it gives each element of the gradient, input 0, to the
// element of input 1 that was the first, row-major, of the largest of its window. Its attributes are
// kernel_shape, strides, dilations and pads.
const MaxPoolGrad = ".MaxPoolGrad"

// MaxPool gives the gradient to the first of the largest.
func MaxPool(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	k := windowOf(n, nil, n.In[0], n.Out[0])
	return []*value{b.Op(MaxPoolGrad, k.nodeAttrs(), out[0], n.In[0])}, nil
}

// GlobalMaxPool gives the gradient to the first of the largest.
func GlobalMaxPool(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	x := n.In[0]
	dims := len(x.Shape) - 2
	k := window{toInt64s(x.Shape[2:]), ones(dims), ones(dims), make([]int64, dims), make([]int64, dims)}
	return []*value{b.Op(MaxPoolGrad, k.nodeAttrs(), out[0], x)}, nil
}

// AveragePoolGrad is the operation that undoes an AveragePool: it spreads each element of its input over the
// elements that were averaged, of a tensor of the attribute "shape". Its others are AveragePool's, auto_pad aside.
const AveragePoolGrad = ".AveragePoolGrad"

// AveragePool spreads the gradient.
func AveragePool(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	k := windowOf(n, nil, n.In[0], n.Out[0])
	a := k.nodeAttrs()
	a["shape"] = toInt64s(n.In[0].Shape)
	for _, name := range []string{"count_include_pad", "ceil_mode"} {
		a[name] = graph.Attr(n, name, int64(0))
	}
	return []*value{b.Op(AveragePoolGrad, a, out[0])}, nil
}

// LpPool is the p-norm of a window.
var LpPool = unaryGrad(func(w writer, x, y, g *value) *value {
	p := float64(graph.Attr(w.n, "p", int64(2)))
	k := windowOf(w.n, nil, x, y)
	left := make([]int64, len(k.kernel))
	for i := range left {
		left[i] = max(int64(x.Shape[i+2])+k.before[i]+k.after[i]-k.coveredSize(i, y), 0)
		k.after[i] = k.coveredSize(i, y) + left[i] - int64(x.Shape[i+2]) - k.before[i]
	}
	a := k.nodeAttrs()
	a["group"], a["output_padding"] = int64(x.Shape[1]), left
	each := append([]int{x.Shape[1], 1}, toInts(k.kernel)...)
	unit := make([]float64, graph.Elements(each))
	for i := range unit {
		unit[i] = 1
	}
	weights := w.Const("ones", graph.FromFloats(x.Type, each, unit))
	spread := w.Op("ConvTranspose", a, w.mul(g, w.normFactor(y, p)), weights)
	return w.mul(w.powerSlope(x, p), spread)
})

func toInts(dims []int64) []int {
	out := make([]int, len(dims))
	for i, d := range dims {
		out[i] = int(d)
	}
	return out
}

// ResizeGrad is the operation that undoes a Resize: its transposed interpolation. Its inputs are those of the
// Resize, with the gradient in the place of what was resized, and so are its attributes, with the "shape" of the
// result.
const ResizeGrad = ".ResizeGrad"

// Resize is interpolated back.
func Resize(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	in := make([]*value, len(n.In))
	in[0] = writer{b, n}.applyGradOp(ResizeGrad, out[0])
	return in, nil
}

// GridSampleGrad is the operation that undoes a GridSample: it adds each element of the gradient to those that
// were read for it. Its inputs are those of the GridSample, with the gradient in the place of what was sampled, and
// so are its attributes, with the "shape" of the result.
const GridSampleGrad = ".GridSampleGrad"

// GridSample gives a gradient to what was sampled, and none to the places.
func GridSample(b *graph.Builder, n *graph.Node, out []*value) ([]*value, error) {
	return []*value{writer{b, n}.applyGradOp(GridSampleGrad, out[0]), nil}, nil
}
