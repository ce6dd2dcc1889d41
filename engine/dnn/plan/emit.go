package plan

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/lower"
	"github.com/prefillonly/prefillonly/kernels"
)

// emitter makes calls of operations, with views for operands.
type emitter struct {
	*layout
	weights
	calls []*call
	nodes []*graph.Node // of the operation at hand
}

// operand is where a value is; a constant becomes a weight.
func (e *emitter) operand(v *lower.Value) view {
	if at, ok := e.views[v]; ok {
		return at
	}
	if v.Const != nil {
		at := fresh(v.Shape, rowMajor(v.Shape))
		at.at.weight = e.raw(v)
		e.views[v] = at
		return at
	}
	panic(fmt.Sprintf("value %q is read before it is made", v.Name))
}

func (e *emitter) add(c *call) {
	c.nodes = e.nodes
	e.calls = append(e.calls, c)
}

// run adds a Map.
func (e *emitter) run(p *kernels.Program, dst view, operands ...view) {
	views := folded(append([]view{dst}, operands...))
	e.add(&call{kind: &mapped{program: p}, dst: views[0], operands: views[1:]})
}

func (e *emitter) copy(dst, src view) { e.run(copies, dst, src) }

// densely is v, or a copy of it that lies in memory by strides.
func (e *emitter) densely(v view, stride []int) view {
	if v.isDense(stride) {
		return v
	}
	c := fresh(v.shape, stride)
	e.copy(c, v)
	return c
}

// emit adds the calls of an operation.
func (e *emitter) emit(op *lower.Op) {
	e.nodes = op.Nodes
	if _, ok := op.Kind.(*lower.Host); ok {
		e.host(op)
		return
	}
	out := op.Out[0]
	switch kind := op.Kind.(type) {
	case *lower.Reshape:
		e.reshape(op)
	case *lower.Transpose:
		e.alias(out, e.operand(op.In[0]).permute(kind.Order))
	case *lower.Slice:
		e.alias(out, e.operand(op.In[0]).slice(kind.Start, kind.Step, out.Shape))
	case *lower.Expand:
		e.alias(out, e.operand(op.In[0]).expand(out.Shape))
	case *lower.Assemble:
		e.assembled(op, kind)
	case *lower.Element:
		operands := make([]view, len(op.In))
		for i, v := range op.In {
			operands[i] = e.operand(v).expand(out.Shape)
		}
		e.run(kind.Program, e.result(out), operands...)
	case *lower.Conv:
		e.window(op, &kind.Window, kind, e.filter(kind.Filter))
	case *lower.ConvBackward:
		e.window(op, &kind.Window, kind, e.filter(kind.Filter))
	case *lower.Pool:
		e.window(op, &kind.Window, kind, 0)
	case *lower.PoolBackward:
		e.window(op, &kind.Window, kind, 0)
	default: // whose operands may lie in any way
		c := &call{kind: kind, dst: e.result(out)}
		for _, v := range op.In {
			c.operands = append(c.operands, e.operand(v))
		}
		e.add(c)
	}
}

// alias makes v a view, or a copy of one where v has a place of its own.
func (e *emitter) alias(v *lower.Value, at view) {
	place, ok := e.views[v]
	if !ok {
		e.views[v] = at
	} else if !place.same(at) {
		e.copy(place, at)
	}
}

// reshape is a view where strides can tell it, else a copy.
func (e *emitter) reshape(op *lower.Op) {
	in, out := e.operand(op.In[0]), op.Out[0]
	if r, ok := in.reshape(out.Shape); ok {
		e.alias(out, r)
		return
	}
	fine, ok := refined(in.shape, out.Shape)
	if !ok { // no Map tells it: first into row-major order, which any shape has
		plain, _ := e.densely(in, rowMajor(in.shape)).reshape(out.Shape)
		e.alias(out, plain)
		return
	}
	dst, _ := e.result(out).reshape(fine)
	src, _ := in.reshape(fine)
	e.copy(dst, src)
}

// assembled copies the parts that are not there already, and fills gaps.
func (e *emitter) assembled(op *lower.Op, kind *lower.Assemble) {
	out := e.result(op.Out[0])
	switch {
	case kind.Gaps && framed(kind):
		e.fill(out, kind, op.In[0].Shape)
	case kind.Gaps:
		e.run(filling(kind), out)
	}
	var moves []move
	for i, v := range op.In {
		m := move{partOf(out, kind, i, v), e.operand(v)}
		if m.src.same(m.dst) {
			continue
		}
		moves = joined(moves, m)
	}
	for _, m := range moves {
		e.copy(m.dst, m.src)
	}
}

// move is a copy that is to be made.
type move struct{ dst, src view }

// maxJoined is how many moves, the last ones, one more may be put together with.
const maxJoined = 32

// joined is moves and one more, put together with one of the last where both operands lie beside those of that one, and
// a Map of the two needs no dimension more than one of them does.
func joined(moves []move, m move) []move {
	for i := max(0, len(moves)-maxJoined); i < len(moves); i++ {
		other := moves[i]
		dst, ok := beside(other.dst, m.dst)
		src, also := beside(other.src, m.src)
		if ok && also && len(folded([]view{dst, src})[0].shape) <= len(folded([]view{m.dst, m.src})[0].shape) {
			return joined(slices.Delete(moves, i, i+1), move{dst, src})
		}
	}
	return append(moves, m)
}

// beside is two views of one shape and strides in one storage as one, with a dimension more.
func beside(a, b view) (view, bool) {
	if a.at != b.at || len(a.shape) == kernels.MaxDims || !slices.Equal(a.shape, b.shape) || !slices.Equal(a.stride, b.stride) {
		return view{}, false
	}
	return view{a.at, a.off, append([]int{2}, a.shape...), append([]int{b.off - a.off}, a.stride...)}, true
}

// fill writes around the one part of an Assemble with gaps, of this shape.
func (e *emitter) fill(out view, kind *lower.Assemble, part []int) {
	p := filling(kind)
	for d, n := range part {
		before := kind.At[0][d]
		if before > 0 {
			e.run(p, out.part(d, 0, before))
		}
		if end := before + n; end < out.shape[d] {
			e.run(p, out.part(d, end, out.shape[d]))
		}
		out = out.part(d, before, before+n)
	}
}

func filling(kind *lower.Assemble) *kernels.Program {
	return &kernels.Program{Code: []kernels.Instruction{{Op: kernels.Constant, X: kind.Fill}}}
}

// window adds an operation on images. What it reads is copied where it does not lie as it has to.
func (e *emitter) window(op *lower.Op, w *lower.Window, kind any, weight int) {
	c := &call{kind: kind, weight: weight, origin: w.Origin, dst: e.result(op.Out[0]).permute(w.Order)}
	_, conv := kind.(*lower.Conv)
	for i, v := range op.In {
		at := e.operand(v)
		if conv && i > 0 {
			at = at.expand(op.Out[0].Shape).permute(w.Order)
		} else if at = at.permute(w.Order); !at.isImage() {
			at = e.densely(at, rowMajor(at.shape))
		}
		c.operands = append(c.operands, at)
	}
	for _, v := range op.Out[1:] {
		c.also = append(c.also, e.result(v).permute(w.Order))
	}
	e.add(c)
}

// host adds a node for the host.
func (e *emitter) host(op *lower.Op) {
	h := &hosted{op: op, in: make([]view, len(op.In)), out: make([]view, len(op.Out))}
	for i, v := range op.In {
		if v != nil && v.Const == nil && !v.Host {
			h.in[i] = e.densely(e.operand(v), rowMajor(v.Shape))
		}
	}
	for i, v := range op.Out {
		if v != nil && !v.Host {
			h.out[i] = e.result(v)
		}
	}
	e.add(&call{kind: h})
}

// outputs are where the net's outputs are, dense and row-major; at nil: on the host, or constant.
func (e *emitter) outputs() []view {
	e.nodes = nil
	list := make([]view, len(e.net.Outputs))
	for i, v := range e.net.Outputs {
		if v.Const == nil && !v.Host {
			list[i] = e.densely(e.operand(v), rowMajor(v.Shape))
		}
	}
	return list
}

// inputs gives the net's inputs their memory.
func (e *emitter) inputs() []view {
	list := make([]view, len(e.net.Inputs))
	for i, v := range e.net.Inputs {
		if !v.Host {
			list[i] = e.result(v)
		}
	}
	return list
}

// inPlace lets Maps write over an operand that nothing reads afterwards.
func inPlace(calls []*call) {
	for i, c := range calls {
		if _, ok := c.kind.(*mapped); !ok || c.dst.at.first != i {
			continue
		}
		for _, v := range c.operands {
			if c.over(v, i) {
				s := v.at.root()
				c.dst.at.into, s.last = s, c.dst.at.last
				break
			}
		}
	}
}

// over says whether call i may write over the operand v.
func (c *call) over(v view, i int) bool {
	s := v.at.root()
	if s.weight >= 0 || s.last != i || s.elements != c.dst.at.elements || v.off != 0 || c.dst.off != 0 || v.elements() != s.elements ||
		!slices.Equal(v.stride, c.dst.stride) {
		return false
	}
	return !slices.ContainsFunc(c.operands, func(w view) bool { return w.at.root() == s && !w.same(v) })
}
