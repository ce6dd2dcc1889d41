package lower

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/spatial"
	"github.com/prefillonly/prefillonly/kernels"
)

// windowLowerings are those of convolutions and pools.
func windowLowerings() map[string]func(t *translator, n *graph.Node) *Value {
	return map[string]func(t *translator, n *graph.Node) *Value{
		"Conv":             lowerConv,
		"ConvTranspose":    convTranspose,
		"MaxPool":          func(t *translator, n *graph.Node) *Value { return pool(t, n, true) },
		"AveragePool":      func(t *translator, n *graph.Node) *Value { return pool(t, n, false) },
		".MaxPoolGrad":     func(t *translator, n *graph.Node) *Value { return poolGrad(t, n, "MaxPool") },
		".AveragePoolGrad": func(t *translator, n *graph.Node) *Value { return poolGrad(t, n, "AveragePool") },
	}
}

// windowOf is where a node's kernel stands; ok is false where a device cannot have it.
func windowOf(n *graph.Node) (w spatial.Window, ok bool) {
	w, err := spatial.WindowOf(n)
	return w, err == nil && len(w.Kernel) >= 1 && len(w.Kernel) <= 3
}

// overImages is a window that moves over a value [N, C, spatial...].
func overImages(w spatial.Window) Window {
	dims := len(w.Kernel)
	o := Window{Order: []int{0}, Origin: make([]int, dims)}
	for i := range dims {
		o.Order = append(o.Order, i+2)
		o.Origin[i] = -w.Before[i]
	}
	o.Order = append(o.Order, 1)
	return o
}

func lowerConv(t *translator, n *graph.Node) *Value {
	x, weight := t.translatedValue(n.In[0]), n.In[1]
	out := n.Out[0].Shape
	if x.Const != nil || len(out) < 3 {
		return nil
	}
	w, ok := windowOf(n)
	if !ok {
		return nil
	}
	kind := &Conv{Window: overImages(w), Filter: &Filter{Weight: weight, Spec: kernels.ConvSpec{
		In: x.Shape[1], Out: out[1], Groups: attrInt(n, "group", 1), Kernel: w.Kernel, Strides: w.Strides, Dilations: w.Dilations,
	}}}
	packed, ok := t.packFilter(kind.Filter)
	if !ok {
		return t.addBias(n, t.convByProducts(x, t.translatedValue(weight), w, out))
	}
	return t.addBiasedConv(kind, kind.Filter, n, removePadding(&kind.Window, x), packed...)
}

// removePadding is what x was before zeros were put around it; the window moves instead.
func removePadding(w *Window, x *Value) *Value {
	if x.From == nil {
		return x
	}
	padding, ok := x.From.Kind.(*Assemble)
	if !ok || !padding.Gaps || padding.Fill != 0 || len(padding.At) != 1 || padding.Step != nil {
		return x
	}
	inner := x.From.In[0]
	for i, d := range w.Order {
		spatial := i > 0 && i < len(w.Order)-1
		if !spatial && d >= 0 && inner.Shape[d] != x.Shape[d] {
			return x
		}
	}
	for i := range w.Origin {
		w.Origin[i] -= padding.At[0][w.Order[i+1]]
	}
	return inner
}

// addBiasedConv adds a convolution and its bias, which is the filter's or, where it is not constant or kind takes none, added
// afterwards.
func (t *translator) addBiasedConv(kind any, f *Filter, n *graph.Node, x *Value, packed ...*Value) *Value {
	bias, shape := n.Input(2), n.Out[0].Shape
	_, forward := kind.(*Conv)
	if bias != nil && bias.Const != nil && forward {
		f.Bias, bias = bias, nil
	}
	x = t.addOp(kind, n.Out[0].Type, shape, append([]*Value{x}, packed...)...)
	if bias == nil {
		return x
	}
	return t.addBias(n, x)
}

// addBias is x and a convolution's bias, if it has one.
func (t *translator) addBias(n *graph.Node, x *Value) *Value {
	bias, shape := n.Input(2), n.Out[0].Shape
	if bias == nil {
		return x
	}
	b := t.reshape(t.translatedValue(bias), onesBut(len(shape), 1, shape[1])...)
	return t.addElementwise(shape, []*Value{x, b}, func(c *programBuilder, in []int) int { return c.Op(kernels.Add, in[0], in[1]) })
}

func convTranspose(t *translator, n *graph.Node) *Value {
	x, weight := t.translatedValue(n.In[0]), n.In[1]
	out := n.Out[0].Shape
	if x.Const != nil || len(out) < 3 {
		return nil
	}
	w, ok := windowOf(n)
	if !ok {
		return nil
	}
	spec := kernels.ConvSpec{
		In: out[1], Out: x.Shape[1], Groups: attrInt(n, "group", 1), Kernel: w.Kernel, Strides: w.Strides, Dilations: w.Dilations,
	}
	var kind any
	f := &Filter{Weight: weight, Spec: spec}
	if slices.Max(w.Strides) == 1 {
		conv := asForward(spec, overImages(w), weight)
		kind, f = conv, conv.Filter
	} else {
		kind = &ConvBackward{Window: overImages(w), Filter: f}
	}
	packed, ok := t.packFilter(f)
	if !ok {
		return t.addBias(n, t.transposedByProducts(x, t.translatedValue(weight), w, spec.Groups, out))
	}
	return t.addBiasedConv(kind, f, n, x, packed...)
}

// asForward is the gradient of a convolution without strides as another convolution, after which a program can run.
func asForward(spec kernels.ConvSpec, w Window, weight *graph.Value) *Conv {
	spec.In, spec.Out = spec.Out, spec.In
	for i, k := range spec.Kernel {
		w.Origin[i] = -w.Origin[i] - (k-1)*spec.Dilations[i]
	}
	return &Conv{Window: w, Filter: &Filter{Weight: weight, Transposed: true, Spec: spec}}
}

// poolOf is a pool's window.
func poolOf(n *graph.Node, max bool) (Window, kernels.PoolSpec, bool) {
	w, ok := windowOf(n)
	if !ok {
		return Window{}, kernels.PoolSpec{}, false
	}
	spec := kernels.PoolSpec{Max: max, Kernel: w.Kernel, Strides: w.Strides, Dilations: w.Dilations}
	if !max && attrInt(n, "count_include_pad", 0) != 0 {
		spec.Counted = true
		for i, after := range w.After {
			spec.CountedEnd = append(spec.CountedEnd, n.In[0].Shape[i+2]+after)
		}
	}
	return overImages(w), spec, true
}

func pool(t *translator, n *graph.Node, max bool) *Value {
	x, out := t.translatedValue(n.In[0]), n.Out[0].Shape
	o, spec, ok := poolOf(n, max)
	if !ok || x.Const != nil {
		return nil
	}
	if max {
		return t.maxPool(x, o, spec, out)
	}
	return t.addOp(&Pool{Window: o, Spec: spec}, n.Out[0].Type, out, x)
}

// maxPool takes maxima of large windows along one dimension after the other: of k x k elements, it compares 2 k.
func (t *translator) maxPool(x *Value, o Window, spec kernels.PoolSpec, out []int) *Value {
	if !isSeparable(spec) {
		return t.addOp(&Pool{Window: o, Spec: spec}, t.node.Out[0].Type, out, x)
	}
	for d := range spec.Kernel {
		x = t.maxAlong(d, x, o, spec, out[d+2])
	}
	return x
}

// isSeparable says whether it is worth while to take maxima along one dimension after the other.
func isSeparable(spec kernels.PoolSpec) bool {
	all, apart := 1, 0
	for _, k := range spec.Kernel {
		all, apart = all*k, apart+k
	}
	return all > 2*apart
}

// poolAlong is the part of a pool over one dimension of space.
func poolAlong(d int, o Window, spec kernels.PoolSpec) (Window, kernels.PoolSpec) {
	ones := slices.Repeat([]int{1}, len(spec.Kernel))
	w, s := Window{Order: o.Order, Origin: make([]int, len(ones))}, kernels.PoolSpec{Max: true}
	s.Kernel, s.Strides, s.Dilations = slices.Clone(ones), slices.Clone(ones), slices.Clone(ones)
	w.Origin[d], s.Kernel[d], s.Strides[d], s.Dilations[d] = o.Origin[d], spec.Kernel[d], spec.Strides[d], spec.Dilations[d]
	return w, s
}

// maxAlong takes maxima along one dimension of space, which becomes size.
func (t *translator) maxAlong(d int, x *Value, o Window, spec kernels.PoolSpec, size int) *Value {
	w, s := poolAlong(d, o, spec)
	shape := slices.Clone(x.Shape)
	shape[d+2] = size
	return t.addOp(&Pool{Window: w, Spec: s}, x.Type, shape, x)
}

// maxPoolGrad goes back along one dimension after the other where the pool was taken so, last dimension first: the
// first of equal maxima of the last dimension's maxima, and then of the elements, is the first one row-major.
func (t *translator) maxPoolGrad(g, x *Value, o Window, spec kernels.PoolSpec) *Value {
	if !isSeparable(spec) {
		return t.addOp(&PoolBackward{Window: o, Spec: spec}, x.Type, x.Shape, g, x)
	}
	dims := len(spec.Kernel)
	stages := make([]*Value, dims) // stage d has the maxima of the dimensions after d
	for d := dims - 1; d >= 0; d-- {
		stages[d] = x
		if d > 0 {
			x = t.maxAlong(d, x, o, spec, g.Shape[d+2])
		}
	}
	for d, stage := range stages {
		w, s := poolAlong(d, o, spec)
		g = t.addOp(&PoolBackward{Window: w, Spec: s}, g.Type, stage.Shape, g, stage)
	}
	return g
}

// poolGrad reads the gradient and, of a maximum, the pool's input.
func poolGrad(t *translator, n *graph.Node, op string) *Value {
	forward, max := forwardNode(n, op), op == "MaxPool"
	forward.In = forward.In[:1]
	o, spec, ok := poolOf(forward, max)
	in := []*Value{t.translatedValue(n.In[0])}
	if max {
		in = append(in, t.translatedValue(n.In[1]))
	}
	if !ok || slices.ContainsFunc(in, func(v *Value) bool { return v.Const != nil }) {
		return nil
	}
	if max {
		return t.maxPoolGrad(in[0], in[1], o, spec)
	}
	return t.addOp(&PoolBackward{Window: o, Spec: spec}, n.Out[0].Type, n.Out[0].Shape, in...)
}
