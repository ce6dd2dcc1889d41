package plan

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/lower"
	"github.com/prefillonly/prefillonly/engine/dnn/ops"
	"github.com/prefillonly/prefillonly/kernels"
)

// Run computes passes of a Plan, one after the other, in a part of a buffer that is its own from Start until the
// last output is read.
type Run struct {
	plan    *Plan
	backend kernels.Backend
	nets    kernels.Networks // nil: the host computes all
	imports kernels.Importer // nil: the device reads no host memory
	arena   kernels.Buffer
	off     int64
	weights []kernels.Held
	tensors map[*call][]kernels.Tensor // the result, the operands and further results
	packed  map[*call]kernels.Filter   // of convolutions whose filters are packed by other calls

	host map[*lower.Value]*graph.Tensor
	next int
	done float64 // seconds, as estimated
}

// Bind prepares to run: in the arena, from off on, 64 bytes aligned, are ArenaBytes for it; weights are those of the plan
// in its order.
func (p *Plan) Bind(b kernels.Backend, arena kernels.Buffer, off int64, weights []kernels.Held) (*Run, error) {
	r := &Run{plan: p, backend: b, arena: arena, off: off, weights: weights, tensors: map[*call][]kernels.Tensor{}, packed: map[*call]kernels.Filter{}}
	if len(weights) != len(p.Weights) {
		return nil, fmt.Errorf("%d weights for a plan of %d", len(weights), len(p.Weights))
	}
	if p.options.Device != nil {
		var err error
		if r.nets, err = kernels.NetworksOf(b); err != nil {
			return nil, err
		}
		r.imports, _ = b.(kernels.Importer)
	}
	if p.ArenaBytes > 0 && (off < 0 || off%alignment != 0 || off+p.ArenaBytes > arena.Bytes()) {
		return nil, fmt.Errorf("an arena of %d bytes from %d on, of a buffer of %d", p.ArenaBytes, off, arena.Bytes())
	}
	for _, step := range p.steps {
		for _, c := range step {
			if _, ok := c.kind.(*hosted); !ok {
				for _, v := range slices.Concat([]view{c.dst}, c.operands, c.also) {
					r.tensors[c] = append(r.tensors[c], r.tensorOf(v))
				}
				r.findPacked(c)
			}
		}
	}
	r.prepareKernels()
	r.Start()
	return r, nil
}

// prepareKernels has the device make ready what it compiles.
func (r *Run) prepareKernels() {
	device, ok := r.nets.(kernels.Preparer)
	if !ok {
		return
	}
	for _, step := range r.plan.steps {
		for _, c := range step {
			t := r.tensors[c]
			switch kind := c.kind.(type) {
			case *lower.Conv:
				device.PrepareConv(t[0], t[1], r.filterOf(c), r.affineOf(c), c.origin, kind.Then)
			case *lower.ConvBackward:
				device.PrepareConvBackward(t[0], t[1], r.filterOf(c), c.origin)
			}
		}
	}
}

// findPacked finds the filter of a convolution that another call packs.
func (r *Run) findPacked(c *call) {
	if c.packed.at == nil {
		return
	}
	spec := kernels.ConvSpec{}
	switch kind := c.kind.(type) {
	case *lower.Conv:
		spec = kind.Filter.Spec
	case *lower.ConvBackward:
		spec = kind.Filter.Spec
	}
	r.packed[c] = r.nets.(kernels.Packer).Packed(spec, r.tensorOf(c.packed))
}

func (r *Run) filterOf(c *call) kernels.Filter {
	if f := r.packed[c]; f != nil {
		return f
	}
	return r.weights[c.filter].(kernels.Filter)
}

// affineOf is the scale and shift of a convolution, where they are.
func (r *Run) affineOf(c *call) (a kernels.Affine) {
	if c.affine.scaled {
		a.Scale = r.weights[c.affine.scale].(kernels.Buffer)
	}
	if c.affine.shifted {
		a.Shift = r.weights[c.affine.shift].(kernels.Buffer)
	}
	return a
}

// tensorOf is a view where it is now.
func (r *Run) tensorOf(v view) kernels.Tensor {
	s := v.at.rootStorage()
	t := kernels.Tensor{Buf: r.arena, Off: r.off + s.off + 4*int64(v.off), Shape: v.shape, Stride: v.stride}
	if s.weight >= 0 {
		t.Buf, t.Off = r.weights[s.weight].(kernels.Buffer), 4*int64(v.off)
	}
	return t
}

// Start begins a pass: inputs are to be set before its first step.
func (r *Run) Start() {
	r.next, r.done, r.host = 0, 0, map[*lower.Value]*graph.Tensor{}
}

// SetInput gives the input of a name its elements, in its type, dense and row-major; data is no mapped file, and may be
// reused afterwards.
func (r *Run) SetInput(name string, data []byte) error {
	for i, v := range r.plan.Inputs {
		if v.Name != name {
			continue
		}
		if want := graph.Elements(v.Shape) * v.Type.Size(); len(data) != want {
			return fmt.Errorf("input %q: %v%v takes %d bytes, not %d", name, v.Type, v.Shape, want, len(data))
		}
		t := &graph.Tensor{Type: v.Type, Shape: v.Shape, Data: data}
		switch at := r.plan.inputs[i]; {
		case at.at == nil:
			t.Data = slices.Clone(data)
			r.host[r.plan.net.Inputs[i]] = t
		case r.imports != nil && len(r.plan.imports[i]) > 0:
			r.importInput(r.plan.imports[i], toDevice(t))
		default:
			r.writeTensor(at, t)
		}
		return nil
	}
	return fmt.Errorf("there is no input %q", name)
}

// importInput does what calls that read an input alone do, without a copy of it.
func (r *Run) importInput(calls []*call, data []byte) {
	for _, c := range calls {
		in := c.operands[0]
		r.imports.Import(r.tensorOf(c.dst), kernels.Tensor{Off: 4 * int64(in.off), Shape: in.shape, Stride: in.stride}, data)
	}
}

// writeTensor copies a tensor to the device.
func (r *Run) writeTensor(at view, t *graph.Tensor) {
	to := r.tensorOf(at)
	r.backend.Write(to.Buf, to.Off, toDevice(t))
}

// read copies a tensor from the device, where all calls have taken effect.
func (r *Run) read(at view, typ engine.DType, shape []int) *graph.Tensor {
	from := r.tensorOf(at)
	data := make([]byte, 4*at.elementCount())
	r.backend.Read(data, from.Buf, from.Off)
	return fromDevice(typ, shape, data)
}

// Step computes the next part of the pass, and reports whether it was the last. The device has computed it then.
func (r *Run) Step() (done bool, err error) {
	if r.next < len(r.plan.steps) {
		for _, c := range r.plan.steps[r.next] {
			if err := r.runCall(c); err != nil {
				return false, err
			}
			r.done += c.seconds
		}
		r.next++
	}
	return r.next == len(r.plan.steps), r.backend.Sync()
}

// Share is how much of the pass is done, by the time that it is to take: 0 before the first step, 1 after the last one.
func (r *Run) Share() float64 {
	if r.next == len(r.plan.steps) {
		return 1
	}
	return min(r.done/r.plan.Seconds, 1-1e-9)
}

func (r *Run) runCall(c *call) error {
	t := r.tensors[c]
	switch kind := c.kind.(type) {
	case *hosted:
		return r.evalOnHost(c, kind)
	case *mapped:
		if !kind.input || r.imports == nil {
			r.nets.Map(t[0], kind.program, t[1:]...)
		}
	case *lower.Conv:
		r.nets.Conv(t[0], t[1], r.filterOf(c), r.affineOf(c), c.origin, kind.Then, t[2:]...)
	case *lower.ConvBackward:
		r.nets.ConvBackward(t[0], t[1], r.filterOf(c), c.origin)
	case *lower.Pack:
		r.nets.(kernels.Packer).Pack(t[0], kind.Spec, t[1])
	case *lower.Pool:
		r.nets.Pool(t[0], t[1], kind.Spec, c.origin)
	case *lower.PoolBackward:
		var src kernels.Tensor
		if len(t) > 2 {
			src = t[2]
		}
		r.nets.PoolBackward(t[0], t[1], src, kind.Spec, c.origin)
	case *lower.Interpolate:
		r.nets.Interpolate(t[0], t[1], kind.Dim, kind.Taps)
	case *lower.MatMul:
		r.nets.MatMul(t[0], t[1], t[2])
	case *lower.Reduce:
		r.nets.Reduce(t[0], t[1], kind.How)
	}
	return nil
}

// evalOnHost computes a node on the host.
func (r *Run) evalOnHost(c *call, h *hosted) error {
	node := h.op.Kind.(*lower.Host).Node
	if err := r.backend.Sync(); err != nil {
		return err
	}
	in := make([]*graph.Tensor, len(h.op.In))
	for i, v := range h.op.In {
		switch {
		case v == nil:
		case h.in[i].at != nil:
			in[i] = r.read(h.in[i], v.Type, v.Shape)
		default:
			in[i] = r.onHost(v)
		}
	}
	operation, ok := ops.Lookup(node.Op)
	if !ok {
		return fmt.Errorf("node %q: there is no operation %s", node.Name, node.Op)
	}
	out, err := operation.Eval(node, in)
	if err != nil {
		return fmt.Errorf("node %q (%s): %w", node.Name, node.Op, err)
	}
	for i, v := range h.op.Out {
		switch {
		case v == nil:
		case out[i] == nil:
			return fmt.Errorf("node %q (%s): output %d was not computed", node.Name, node.Op, i)
		case h.out[i].at == nil:
			r.host[v] = out[i]
		case !slices.Equal(out[i].Shape, v.Shape):
			return fmt.Errorf("node %q (%s): output %q is %v, not %v", node.Name, node.Op, v.Name, out[i], v.Shape)
		default:
			r.writeTensor(h.out[i], out[i])
		}
	}
	for _, v := range r.plan.drops[c] {
		delete(r.host, v)
	}
	return nil
}

// onHost is a value in host memory.
func (r *Run) onHost(v *lower.Value) *graph.Tensor {
	if v.Const != nil {
		return v.Const
	}
	return r.host[v]
}

// OutputShape is the shape of output i of the graph, once the last step has run.
func (r *Run) OutputShape(i int) []int {
	v := r.plan.net.Outputs[i]
	if r.plan.outputs[i].at != nil {
		return v.Shape
	}
	return r.onHost(v).Shape
}

// ReadOutput copies output i of the graph, in its type, dense and row-major, to dst, which is as long. The last step
// has run.
func (r *Run) ReadOutput(i int, dst []byte) error {
	v, typ := r.plan.net.Outputs[i], r.plan.Outputs[i].Type
	if want := graph.Elements(r.OutputShape(i)) * typ.Size(); len(dst) != want {
		return fmt.Errorf("output %q takes %d bytes, not %d", r.plan.Outputs[i].Name, want, len(dst))
	}
	at := r.plan.outputs[i]
	switch {
	case at.at == nil:
		copy(dst, r.onHost(v).Data)
	case typ == engine.FP32:
		from := r.tensorOf(at)
		r.backend.Read(dst, from.Buf, from.Off)
	default:
		copy(dst, r.read(at, typ, v.Shape).Data)
	}
	return nil
}
