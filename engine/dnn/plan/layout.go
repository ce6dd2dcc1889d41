package plan

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/lower"
)

// layout decides in which order the dimensions of values lie in memory, and which are written straight into the
// place that they have in another one.
type layout struct {
	net     *lower.Net
	wants   map[*lower.Value]want
	strides map[*lower.Value][]int // as values lie if nothing is placed into another one
	views   map[*lower.Value]view
}

// want is how the operations that read a value would have it.
type want struct {
	stride []int
	strong bool // they cannot take another one
}

func newLayout(net *lower.Net) *layout {
	l := &layout{net: net, wants: map[*lower.Value]want{}, strides: map[*lower.Value][]int{}, views: map[*lower.Value]view{}}
	for _, op := range slices.Backward(net.Ops) {
		l.wishStrides(op)
	}
	for _, op := range net.Ops {
		for _, v := range op.Out {
			if v != nil && !v.Host {
				l.strides[v] = l.naturalStrides(op, v)
			}
		}
	}
	for _, op := range slices.Backward(net.Ops) {
		if kind, ok := op.Kind.(*lower.Assemble); ok {
			l.placeParts(op, kind)
		}
	}
	return l
}

// wishStrides notes how the operands of an operation should lie, which may follow from how its result should.
func (l *layout) wishStrides(op *lower.Op) {
	if _, host := op.Kind.(*lower.Host); host {
		return
	}
	if window := windowOf(op); window != nil {
		l.preferStrides(op.In[0], want{denseStrides(op.In[0].Shape, memoryOrder(window.Order)), true})
		if _, pool := op.Kind.(*lower.PoolBackward); pool && len(op.In) > 1 {
			l.preferStrides(op.In[1], want{denseStrides(op.In[1].Shape, memoryOrder(window.Order)), true})
		}
		return
	}
	out := op.Out[0]
	if _, product := op.Kind.(*lower.MatMul); product {
		l.preferStrides(op.In[1], want{stride: rowMajor(op.In[1].Shape)})
		return
	}
	w, ok := l.wants[out]
	if !ok && out.Kept {
		w, ok = want{stride: rowMajor(out.Shape)}, true
		l.wants[out] = w
	}
	if !ok {
		return
	}
	for _, v := range op.In {
		switch kind := op.Kind.(type) {
		case *lower.Transpose:
			stride := make([]int, len(v.Shape))
			for i, d := range kind.Order {
				stride[d] = w.stride[i]
			}
			l.preferStrides(v, want{stride, w.strong})
		case *lower.Reshape:
			if stride, ok := reshapeStrides(out.Shape, w.stride, v.Shape); ok {
				l.preferStrides(v, want{stride, w.strong})
			}
		case *lower.Reduce: // whose result says little of the order
		default: // of the same dimensions
			if len(v.Shape) == len(out.Shape) {
				l.preferStrides(v, want{denseStrides(v.Shape, orderOf(w.stride)), w.strong})
			}
		}
	}
}

func (l *layout) preferStrides(v *lower.Value, w want) {
	if had, ok := l.wants[v]; !ok || w.strong && !had.strong {
		l.wants[v] = w
	}
}

// windowOf is that of an operation on images, or nil.
func windowOf(op *lower.Op) *lower.Window {
	switch kind := op.Kind.(type) {
	case *lower.Conv:
		return &kind.Window
	case *lower.ConvBackward:
		return &kind.Window
	case *lower.Pool:
		return &kind.Window
	case *lower.PoolBackward:
		return &kind.Window
	}
	return nil
}

// memoryOrder is a window's order of the dimensions that the value has.
func memoryOrder(order []int) []int {
	return slices.DeleteFunc(slices.Clone(order), func(d int) bool { return d < 0 })
}

// naturalStrides are the strides of v, that op makes.
func (l *layout) naturalStrides(op *lower.Op, v *lower.Value) []int {
	if window := windowOf(op); window != nil {
		return denseStrides(v.Shape, memoryOrder(window.Order))
	}
	if _, host := op.Kind.(*lower.Host); host {
		return rowMajor(v.Shape)
	}
	if len(op.In) > 0 {
		in := op.In[0]
		from := view{shape: in.Shape, stride: l.strideOf(in)}
		switch kind := op.Kind.(type) {
		case *lower.Transpose:
			return from.permute(kind.Order).stride
		case *lower.Slice:
			return from.slice(kind.Start, kind.Step, v.Shape).stride
		case *lower.Expand:
			return from.expand(v.Shape).stride
		case *lower.Reshape:
			if r, ok := from.reshape(v.Shape); ok {
				return r.stride
			}
		}
	}
	if w, ok := l.wants[v]; ok {
		return denseStrides(v.Shape, orderOf(w.stride))
	}
	switch op.Kind.(type) {
	case *lower.Element, *lower.Assemble, *lower.Interpolate, *lower.Reduce: // as the largest operand
		var like *lower.Value
		for _, in := range op.In {
			if in.Const == nil && len(in.Shape) == len(v.Shape) && (like == nil || graph.Elements(in.Shape) > graph.Elements(like.Shape)) {
				like = in
			}
		}
		if like != nil {
			return denseStrides(v.Shape, orderOf(l.strideOf(like)))
		}
	}
	return rowMajor(v.Shape)
}

// strideOf are the strides of a value, row-major where it is an input or constant.
func (l *layout) strideOf(v *lower.Value) []int {
	if s, ok := l.strides[v]; ok {
		return s
	}
	return rowMajor(v.Shape)
}

// placeParts lets the operations before an Assemble write into its result where they can.
func (l *layout) placeParts(op *lower.Op, kind *lower.Assemble) {
	out := l.resultView(op.Out[0])
	if kind.Gaps && !isFramed(kind) {
		return // all of it is filled first
	}
	for i, v := range op.In {
		l.place(v, partOf(out, kind, i, v))
	}
}

// isFramed says whether an Assemble is one dense part and what is around it.
func isFramed(kind *lower.Assemble) bool { return len(kind.At) == 1 && kind.Step == nil }

// partOf is where input i, v, goes.
func partOf(out view, kind *lower.Assemble, i int, v *lower.Value) view {
	if kind.Step == nil {
		return out.slice(kind.At[i], nil, v.Shape)
	}
	return out.slice(kind.At[i], kind.Step[i], v.Shape)
}

// resultView is the view that an operation's result is written to.
func (l *layout) resultView(v *lower.Value) view {
	if _, ok := l.views[v]; !ok {
		l.views[v] = newView(v.Shape, denseStrides(v.Shape, orderOf(l.strideOf(v))))
	}
	return l.views[v]
}

func newView(shape, stride []int) view {
	return view{at: &storage{elements: graph.Elements(shape), weight: -1, first: -1}, shape: shape, stride: stride}
}

// place makes v lie at a place in another tensor, if what makes it can write there and it has no place yet.
func (l *layout) place(v *lower.Value, at view) bool {
	if _, placed := l.views[v]; placed || v.Host || v.Const != nil || v.From == nil {
		return false
	}
	switch kind := v.From.Kind.(type) {
	case *lower.Host, *lower.Slice, *lower.Expand:
		return false
	case *lower.Transpose:
		return l.place(v.From.In[0], at.permute(inverseOrder(kind.Order)))
	case *lower.Reshape:
		in := v.From.In[0]
		if r, ok := at.reshape(in.Shape); ok && l.place(in, r) {
			return true
		}
		if _, free := reshapeStrides(in.Shape, l.strideOf(in), v.Shape); free {
			return false
		} // else it is a copy anyway
	default:
		if window := windowOf(v.From); window != nil && !at.permute(window.Order).isImage() {
			return false
		}
	}
	l.views[v] = at
	return true
}

func inverseOrder(order []int) []int {
	back := make([]int, len(order))
	for i, d := range order {
		back[d] = i
	}
	return back
}
