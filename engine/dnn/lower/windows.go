package lower

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/kernels"
)

// windowLowerings are those of convolutions and pools.
func windowLowerings() map[string]func(t *translator, n *graph.Node) *Value {
	return map[string]func(t *translator, n *graph.Node) *Value{
		"Conv":          conv,
		"ConvTranspose": convTranspose,
		"MaxPool":       func(t *translator, n *graph.Node) *Value { return pool(t, n, true) },
		"AveragePool":   func(t *translator, n *graph.Node) *Value { return pool(t, n, false) },
	}
}

// window is what attributes say of a kernel that moves over an image.
type window struct {
	kernel, strides, dilations []int
	before, after              []int // the padding
}

// windowOf reads the attributes; in and out are the spatial dimensions of what a forward convolution reads and makes.
func windowOf(n *graph.Node, kernel, in, out []int) (w window, ok bool) {
	dims := len(in)
	w = window{kernel: kernel, strides: attrInts(n, "strides"), dilations: attrInts(n, "dilations")}
	for _, list := range []*[]int{&w.strides, &w.dilations} {
		if *list == nil {
			*list = slices.Repeat([]int{1}, dims)
		}
	}
	padding := attrInts(n, "pads")
	if padding == nil {
		padding = make([]int, 2*dims)
	}
	if dims < 1 || dims > 3 || len(kernel) != dims || len(w.strides) != dims || len(w.dilations) != dims || len(padding) != 2*dims {
		return w, false
	}
	w.before, w.after = padding[:dims], padding[dims:]
	if auto := graph.Attr(n, "auto_pad", "NOTSET"); auto == "SAME_UPPER" || auto == "SAME_LOWER" {
		w.before, w.after = make([]int, dims), make([]int, dims)
		for i := range dims {
			all := max(0, (out[i]-1)*w.strides[i]+(kernel[i]-1)*w.dilations[i]+1-in[i])
			w.before[i] = all / 2
			if auto == "SAME_LOWER" {
				w.before[i] = all - all/2
			}
			w.after[i] = all - w.before[i]
		}
	}
	return w, true
}

// origin is that of a window, in a value [N, C, spatial...].
func (w *window) origin() Window {
	dims := len(w.kernel)
	o := Window{Order: []int{0}, Origin: make([]int, dims)}
	for i := range dims {
		o.Order = append(o.Order, i+2)
		o.Origin[i] = -w.before[i]
	}
	o.Order = append(o.Order, 1)
	return o
}

func conv(t *translator, n *graph.Node) *Value {
	x, weight := t.value(n.In[0]), n.In[1]
	out := n.Out[0].Shape
	if x.Const != nil || weight.Const == nil || len(out) < 3 {
		return nil
	}
	w, ok := windowOf(n, weight.Shape[2:], x.Shape[2:], out[2:])
	if !ok {
		return nil
	}
	kind := &Conv{Window: w.origin(), Filter: &Filter{Weight: weight, Spec: kernels.ConvSpec{
		In: x.Shape[1], Out: out[1], Groups: attrInt(n, "group", 1), Kernel: w.kernel, Strides: w.strides, Dilations: w.dilations,
	}}}
	x = kind.unpad(x)
	return t.biased(kind, kind.Filter, n, x)
}

// unpad is what x was before zeros were put around it; the window moves instead.
func (w *Window) unpad(x *Value) *Value {
	if x.From == nil {
		return x
	}
	padding, ok := x.From.Kind.(*Assemble)
	if !ok || !padding.Gaps || padding.Fill != 0 || len(padding.At) != 1 {
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

// biased adds a convolution and its bias, which is the filter's or, where it is not constant or kind takes none, added
// afterwards.
func (t *translator) biased(kind any, f *Filter, n *graph.Node, x *Value) *Value {
	bias, shape := n.Input(2), n.Out[0].Shape
	_, forward := kind.(*Conv)
	if bias != nil && bias.Const != nil && forward {
		f.Bias, bias = bias, nil
	}
	x = t.add(kind, n.Out[0].Type, shape, x)
	if bias == nil {
		return x
	}
	b := t.reshape(t.value(bias), onesBut(len(shape), 1, shape[1])...)
	return t.element(shape, []*Value{x, b}, func(c *code, in []int) int { return c.op(kernels.Add, in[0], in[1]) })
}

func convTranspose(t *translator, n *graph.Node) *Value {
	x, weight := t.value(n.In[0]), n.In[1]
	out := n.Out[0].Shape
	if x.Const != nil || weight.Const == nil || len(out) < 3 {
		return nil
	}
	w, ok := windowOf(n, weight.Shape[2:], out[2:], x.Shape[2:])
	if !ok {
		return nil
	}
	w.transposedPads(n, x.Shape[2:], out[2:])
	kind := &ConvBackward{Window: w.origin(), Filter: &Filter{Weight: weight, Spec: kernels.ConvSpec{
		In: out[1], Out: x.Shape[1], Groups: attrInt(n, "group", 1), Kernel: w.kernel, Strides: w.strides, Dilations: w.dilations,
	}}}
	return t.biased(kind, kind.Filter, n, x)
}

// transposedPads divides what a ConvTranspose's output lacks, where that is given and not the padding.
func (w *window) transposedPads(n *graph.Node, in, out []int) {
	auto := graph.Attr(n, "auto_pad", "NOTSET")
	same := auto == "SAME_UPPER" || auto == "SAME_LOWER"
	if !same && attrInts(n, "output_shape") == nil {
		return
	}
	more := attrInts(n, "output_padding")
	for i := range out {
		all := w.strides[i]*(in[i]-1) + (w.kernel[i]-1)*w.dilations[i] + 1 - out[i]
		if more != nil {
			all += more[i]
		}
		all = max(0, all)
		w.before[i] = all - all/2
		if auto == "SAME_UPPER" {
			w.before[i] = all / 2
		}
	}
}

// poolOf reads a pool's attributes.
func poolOf(n *graph.Node, in, out []int, max bool) (Window, kernels.PoolSpec, bool) {
	w, ok := windowOf(n, attrInts(n, "kernel_shape"), in, out)
	if !ok {
		return Window{}, kernels.PoolSpec{}, false
	}
	spec := kernels.PoolSpec{Max: max, Kernel: w.kernel, Strides: w.strides, Dilations: w.dilations}
	if !max && attrInt(n, "count_include_pad", 0) != 0 {
		spec.Counted = true
		for i, size := range in {
			spec.CountedEnd = append(spec.CountedEnd, size+w.after[i])
		}
	}
	return w.origin(), spec, true
}

func pool(t *translator, n *graph.Node, max bool) *Value {
	x, out := t.value(n.In[0]), n.Out[0].Shape
	if len(out) < 3 {
		return nil
	}
	o, spec, ok := poolOf(n, x.Shape[2:], out[2:], max)
	if !ok || x.Const != nil {
		return nil
	}
	return t.add(&Pool{o, spec}, n.Out[0].Type, out, x)
}
