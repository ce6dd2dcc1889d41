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

// operandView is where a value is; a constant becomes a weight.
func (e *emitter) operandView(v *lower.Value) view {
	if at, ok := e.views[v]; ok {
		return at
	}
	if v.Const != nil {
		at := newView(v.Shape, rowMajor(v.Shape))
		at.at.weight = e.rawIndex(v.Name, v.Const)
		e.views[v] = at
		return at
	}
	panic(fmt.Sprintf("value %q is read before it is made", v.Name))
}

func (e *emitter) addCall(c *call) {
	c.nodes = e.nodes
	e.calls = append(e.calls, c)
}

// run adds a Map.
func (e *emitter) run(p *kernels.Program, dst view, operands ...view) {
	views := foldViews(append([]view{dst}, operands...))
	e.addCall(&call{kind: &mapped{program: p}, dst: views[0], operands: views[1:]})
}

func (e *emitter) copyView(dst, src view) { e.run(copies, dst, src) }

// makeDense is v, or a copy of it that lies in memory by strides.
func (e *emitter) makeDense(v view, stride []int) view {
	if v.isDense(stride) {
		return v
	}
	c := newView(v.shape, stride)
	e.copyView(c, v)
	return c
}

// emitOp adds the calls of an operation.
func (e *emitter) emitOp(op *lower.Op) {
	e.nodes = op.Nodes
	if _, ok := op.Kind.(*lower.Host); ok {
		e.emitHost(op)
		return
	}
	out := op.Out[0]
	switch kind := op.Kind.(type) {
	case *lower.Reshape:
		e.emitReshape(op)
	case *lower.Transpose:
		e.aliasView(out, e.operandView(op.In[0]).permute(kind.Order))
	case *lower.Slice:
		e.aliasView(out, e.operandView(op.In[0]).slice(kind.Start, kind.Step, out.Shape))
	case *lower.Expand:
		e.aliasView(out, e.operandView(op.In[0]).expand(out.Shape))
	case *lower.Assemble:
		e.emitAssemble(op, kind)
	case *lower.Element:
		operands := make([]view, len(op.In))
		for i, v := range op.In {
			operands[i] = e.operandView(v).expand(out.Shape)
		}
		e.run(kind.Program, e.resultView(out), operands...)
	case *lower.Conv:
		e.emitWindow(op, &kind.Window, kind, kind.Filter)
	case *lower.ConvBackward:
		e.emitWindow(op, &kind.Window, kind, kind.Filter)
	case *lower.Pack:
		e.addCall(&call{kind: kind, dst: e.resultView(out), operands: []view{e.operandView(op.In[0])}})
	case *lower.Pool:
		e.emitWindow(op, &kind.Window, kind, nil)
	case *lower.PoolBackward:
		e.emitWindow(op, &kind.Window, kind, nil)
	default: // whose operands may lie in any way
		c := &call{kind: kind, dst: e.resultView(out)}
		for _, v := range op.In {
			c.operands = append(c.operands, e.operandView(v))
		}
		e.addCall(c)
	}
}

// aliasView makes v a view, or a copy of one where v has a place of its own.
func (e *emitter) aliasView(v *lower.Value, at view) {
	place, ok := e.views[v]
	if !ok {
		e.views[v] = at
	} else if !place.isSame(at) {
		e.copyView(place, at)
	}
}

// emitReshape is a view where strides can tell it, else a copy.
func (e *emitter) emitReshape(op *lower.Op) {
	in, out := e.operandView(op.In[0]), op.Out[0]
	if r, ok := in.reshape(out.Shape); ok {
		e.aliasView(out, r)
		return
	}
	fine, ok := refineShapes(in.shape, out.Shape)
	if !ok { // no Map tells it: first into row-major order, which any shape has
		plain, _ := e.makeDense(in, rowMajor(in.shape)).reshape(out.Shape)
		e.aliasView(out, plain)
		return
	}
	dst, _ := e.resultView(out).reshape(fine)
	src, _ := in.reshape(fine)
	e.copyView(dst, src)
}

// emitAssemble copies the parts that are not there already, and fills gaps.
func (e *emitter) emitAssemble(op *lower.Op, kind *lower.Assemble) {
	out := e.resultView(op.Out[0])
	switch {
	case kind.Gaps && isFramed(kind):
		e.fillGaps(out, kind, op.In[0].Shape)
	case kind.Gaps:
		e.run(fillProgram(kind), out)
	}
	var moves []move
	for i, v := range op.In {
		m := move{partOf(out, kind, i, v), e.operandView(v)}
		if m.src.isSame(m.dst) {
			continue
		}
		moves = joinMoves(moves, m)
	}
	for _, m := range moves {
		e.copyView(m.dst, m.src)
	}
}

// move is a copy that is to be made.
type move struct{ dst, src view }

// maxJoined is how many moves, the last ones, one more may be put together with.
const maxJoined = 32

// joinMoves is moves and one more, put together with one of the last where both operands lie beside those of that one, and
// a Map of the two needs no dimension more than one of them does.
func joinMoves(moves []move, m move) []move {
	for i := max(0, len(moves)-maxJoined); i < len(moves); i++ {
		other := moves[i]
		if wider, ok := other.extend(m); ok {
			return joinMoves(slices.Delete(moves, i, i+1), wider)
		}
		dst, ok := stackViews(other.dst, m.dst)
		src, also := stackViews(other.src, m.src)
		if ok && also && len(foldViews([]view{dst, src})[0].shape) <= len(foldViews([]view{m.dst, m.src})[0].shape) {
			return joinMoves(slices.Delete(moves, i, i+1), move{dst, src})
		}
	}
	return append(moves, m)
}

// extend is m and one more as one, if that goes on where m ends along a dimension, and all else is alike.
func (m move) extend(more move) (move, bool) {
	if m.dst.at != more.dst.at || m.src.at != more.src.at || !slices.Equal(m.dst.stride, more.dst.stride) || !slices.Equal(m.src.stride, more.src.stride) {
		return m, false
	}
	for d, size := range m.dst.shape {
		wide := slices.Clone(m.dst.shape)
		wide[d] = more.dst.shape[d]
		if slices.Equal(wide, more.dst.shape) && more.dst.off-m.dst.off == size*m.dst.stride[d] && more.src.off-m.src.off == size*m.src.stride[d] {
			wide[d] += size
			return move{view{m.dst.at, m.dst.off, wide, m.dst.stride}, view{m.src.at, m.src.off, slices.Clone(wide), m.src.stride}}, true
		}
	}
	return m, false
}

// stackViews is two views of one shape and strides in one storage as one, with a dimension more.
func stackViews(a, b view) (view, bool) {
	if a.at != b.at || len(a.shape) == kernels.MaxDims || !slices.Equal(a.shape, b.shape) || !slices.Equal(a.stride, b.stride) {
		return view{}, false
	}
	return view{a.at, a.off, append([]int{2}, a.shape...), append([]int{b.off - a.off}, a.stride...)}, true
}

// fillGaps writes around the one part of an Assemble with gaps, of this shape.
func (e *emitter) fillGaps(out view, kind *lower.Assemble, part []int) {
	p := fillProgram(kind)
	for d, n := range part {
		before := kind.At[0][d]
		if before > 0 {
			e.run(p, out.partAlong(d, 0, before))
		}
		if end := before + n; end < out.shape[d] {
			e.run(p, out.partAlong(d, end, out.shape[d]))
		}
		out = out.partAlong(d, before, before+n)
	}
}

func fillProgram(kind *lower.Assemble) *kernels.Program {
	return &kernels.Program{Code: []kernels.Instruction{{Op: kernels.Constant, X: kind.Fill}}}
}

// emitWindow adds an operation on images. What it reads is copied where it does not lie as it has to.
func (e *emitter) emitWindow(op *lower.Op, w *lower.Window, kind any, f *lower.Filter) {
	c := &call{kind: kind, origin: w.Origin, dst: e.resultView(op.Out[0]).permute(w.Order)}
	_, conv := kind.(*lower.Conv)
	in := op.In
	switch {
	case f != nil && f.Weight == nil:
		c.packed, in = e.operandView(in[1]), append(in[:1:1], in[2:]...)
	case f != nil:
		c.filter = e.filterIndex(f)
	}
	if conv {
		c.affine = e.affineIndices(f)
	}
	for i, v := range in {
		at := e.operandView(v)
		if conv && i > 0 {
			at = at.expand(op.Out[0].Shape).permute(w.Order)
		} else if at = at.permute(w.Order); !at.isImage() {
			at = e.makeDense(at, rowMajor(at.shape))
		}
		c.operands = append(c.operands, at)
	}
	for _, v := range op.Out[1:] {
		c.also = append(c.also, e.resultView(v).permute(w.Order))
	}
	e.addCall(c)
}

// emitHost adds a node for the host.
func (e *emitter) emitHost(op *lower.Op) {
	h := &hosted{op: op, in: make([]view, len(op.In)), out: make([]view, len(op.Out))}
	for i, v := range op.In {
		if v != nil && v.Const == nil && !v.Host {
			h.in[i] = e.makeDense(e.operandView(v), rowMajor(v.Shape))
		}
	}
	for i, v := range op.Out {
		if v != nil && !v.Host {
			h.out[i] = e.resultView(v)
		}
	}
	e.addCall(&call{kind: h})
}

// outputViews are where the net's outputs are, dense and row-major; at nil: on the host, or constant.
func (e *emitter) outputViews() []view {
	e.nodes = nil
	list := make([]view, len(e.net.Outputs))
	for i, v := range e.net.Outputs {
		if v.Const == nil && !v.Host {
			list[i] = e.makeDense(e.operandView(v), rowMajor(v.Shape))
		}
	}
	return list
}

// placeInputs gives the net's inputs their memory.
func (e *emitter) placeInputs() []view {
	list := make([]view, len(e.net.Inputs))
	for i, v := range e.net.Inputs {
		if !v.Host {
			list[i] = e.resultView(v)
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
			if c.canOverwrite(v, i) {
				s := v.at.rootStorage()
				c.dst.at.into, s.last = s, c.dst.at.last
				break
			}
		}
	}
}

// canOverwrite says whether call i may write over the operand v.
func (c *call) canOverwrite(v view, i int) bool {
	s := v.at.rootStorage()
	if s.weight >= 0 || s.last != i || s.elements != c.dst.at.elements || v.off != 0 || c.dst.off != 0 || v.elementCount() != s.elements ||
		!slices.Equal(v.stride, c.dst.stride) {
		return false
	}
	return !slices.ContainsFunc(c.operands, func(w view) bool { return w.at.rootStorage() == s && !w.isSame(v) })
}
