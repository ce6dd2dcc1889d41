package plan

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/lower"
	"github.com/prefillonly/prefillonly/kernels"
)

// call is a call of the device, or a node for the host.
type call struct {
	kind     any // *ir.Conv and such, or one of a plan's own below
	dst      view
	operands []view
	also     []view // further results, of a convolution's program
	filter   int    // of a convolution, among the weights
	packed   view   // of one whose filter is packed by another call; at nil: it is one of the weights
	affine   affine // of a convolution that takes one
	origin   []int  // of an operation on images
	seconds  float64
	nodes    []*graph.Node
}

// mapped is a Map.
type mapped struct {
	program *kernels.Program
	input   bool // whether it lays out an input: a kernels.Importer has done so when the input was set
}

// hosted is a node for the host, whose values on the device are in these views, dense and row-major.
type hosted struct {
	op      *lower.Op
	in, out []view // at nil: the value is on the host, or constant
}

var copies = &kernels.Program{Operands: 1, Code: []kernels.Instruction{{Op: kernels.Copy}}}

// views are all that the call touches, that which it writes first.
func (c *call) touchedViews() (writes, reads []view) {
	if h, ok := c.kind.(*hosted); ok {
		return h.out, h.in
	}
	reads = c.operands
	if c.packed.at != nil {
		reads = append(slices.Clone(reads), c.packed)
	}
	return append([]view{c.dst}, c.also...), reads
}

// estimateTime sets how long the call takes.
func (c *call) estimateTime(r Rates) {
	if h, ok := c.kind.(*hosted); ok {
		c.seconds = h.estimateTime()
		return
	}
	bytes := 4 * float64(c.dst.elementCount()*(1+len(c.also)))
	for _, v := range c.operands {
		bytes += 4 * float64(v.footprint())
	}
	c.seconds = r.Call + max(c.flops()/r.FLOPs, bytes/r.Bytes)
}

// footprint is how many different elements a view has.
func (v view) footprint() int {
	n := 1
	for i, d := range v.shape {
		if v.stride[i] != 0 {
			n *= d
		}
	}
	return n
}

// flops counts what a call computes; a program's instructions count as much each as vectors make of them.
func (c *call) flops() float64 {
	n := float64(c.dst.elementCount())
	switch kind := c.kind.(type) {
	case *lower.Conv:
		then := 0
		if kind.Then != nil {
			then = len(kind.Then.Code)
		}
		return n * float64(2*kind.Filter.Spec.Taps()+8*then)
	case *lower.ConvBackward:
		return float64(c.operands[0].elementCount()) * 2 * float64(kind.Filter.Spec.Taps())
	case *lower.Pool:
		return n * float64(4*graph.Elements(kind.Spec.Kernel))
	case *lower.PoolBackward:
		return n * float64(4*graph.Elements(kind.Spec.Kernel))
	case *lower.Interpolate:
		return n * 8 * float64(1+len(kind.Taps.Index)/max(1, len(kind.Taps.Start)-1))
	case *lower.MatMul:
		a := c.operands[0].shape
		return n * 2 * float64(a[len(a)-1])
	case *lower.Reduce:
		return 4 * float64(c.operands[0].elementCount())
	case *mapped:
		return n * 8 * float64(len(kind.program.Code))
	}
	return 0
}

// hostSeconds is what the host takes for an element, about.
const hostSeconds = 50e-9

func (h *hosted) estimateTime() float64 {
	elements := 0
	for _, list := range [][]*lower.Value{h.op.In, h.op.Out} {
		for _, v := range list {
			if v != nil && !slices.Contains(v.Shape, -1) {
				elements += graph.Elements(v.Shape)
			}
		}
	}
	return 10e-6 + hostSeconds*float64(elements)
}

// splitCall divides a call into parts that take no longer than limit, where that can be.
func (c *call) splitCall(limit float64) []*call {
	n := int(c.seconds/limit) + 1
	if n == 1 {
		return []*call{c}
	}
	d := c.splitDimension()
	if d < 0 {
		return []*call{c}
	}
	size := c.dst.shape[d]
	n = min(n, size)
	parts := make([]*call, n)
	for i := range parts {
		parts[i] = c.partAlong(d, i*size/n, (i+1)*size/n)
	}
	return parts
}

// splitDimension is the dimension of the result along which the call is divided, or -1: the longest one that can be, from the
// outside inwards if they are equal.
func (c *call) splitDimension() int {
	best := -1
	for d, size := range c.dst.shape {
		if c.canDivide(d) && (best < 0 || size > c.dst.shape[best]) {
			best = d
		}
	}
	return best
}

// canDivide says whether parts of the result along a dimension can be computed apart.
func (c *call) canDivide(d int) bool {
	last := len(c.dst.shape) - 1
	switch c.kind.(type) {
	case *lower.Conv, *lower.ConvBackward, *lower.Pool:
		return d <= 1 && d < last // images and rows
	case *lower.PoolBackward:
		return d == 0 || d == last
	case *lower.MatMul:
		return d < last
	case *mapped, *lower.Interpolate:
		return true
	case *lower.Reduce:
		return c.dst.shape[d] == c.operands[0].shape[d]
	}
	return false
}

// partAlong computes [from, to) along dimension d of the result.
func (c *call) partAlong(d, from, to int) *call {
	p := *c
	p.dst = c.dst.partAlong(d, from, to)
	p.operands = slices.Clone(c.operands)
	p.also = slices.Clone(c.also)
	p.origin = slices.Clone(c.origin)
	p.seconds *= float64(to-from) / float64(c.dst.shape[d])
	both := func(list []view) {
		for i := range list {
			list[i] = list[i].partAlong(d, from, to)
		}
	}
	switch kind := c.kind.(type) {
	case *lower.Conv, *lower.Pool:
		both(p.also)
		if d == 0 {
			both(p.operands)
			break
		}
		both(p.operands[1:])
		p.origin[d-1] += from * strideOf(kind, d-1)
	case *lower.ConvBackward:
		if d == 0 {
			both(p.operands)
			break
		}
		p.origin[d-1] -= from
	case *lower.MatMul:
		p.operands[0] = p.operands[0].partAlong(d, from, to)
		if d < len(c.dst.shape)-2 {
			p.operands[1] = p.operands[1].partAlong(d, from, to)
		}
	case *lower.Interpolate:
		if d != kind.Dim {
			both(p.operands)
			break
		}
		taps := kind.Taps
		taps.Start = taps.Start[from : to+1]
		p.kind = &lower.Interpolate{Dim: d, Taps: taps}
	default:
		both(p.operands)
	}
	return &p
}

// strideOf is how far a window moves for the next output.
func strideOf(kind any, dim int) int {
	if conv, ok := kind.(*lower.Conv); ok {
		return conv.Filter.Spec.Strides[dim]
	}
	return kind.(*lower.Pool).Spec.Strides[dim]
}
