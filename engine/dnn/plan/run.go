package plan

import (
	"fmt"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/kernels"
)

// Run computes passes of a Plan, one after the other, in a part of a buffer that is its own from Start until the
// last output is read.
type Run struct {
	plan *Plan
	host map[*graph.Value]*graph.Tensor
	next int
}

// Bind prepares to run: in the arena, from off on, 64 bytes aligned, are ArenaBytes for it; weights are those of the plan
// in its order.
func (p *Plan) Bind(b kernels.Backend, arena kernels.Buffer, off int64, weights []kernels.Held) (*Run, error) {
	if len(weights) != len(p.Weights) {
		return nil, fmt.Errorf("%d weights for a plan of %d", len(weights), len(p.Weights))
	}
	r := &Run{plan: p}
	r.Start()
	return r, nil
}

// Start begins a pass: inputs are to be set before its first step.
func (r *Run) Start() {
	r.next, r.host = 0, map[*graph.Value]*graph.Tensor{}
}

// SetInput gives the input of a name its elements, in its type, dense and row-major; data may be reused afterwards.
func (r *Run) SetInput(name string, data []byte) error {
	for _, v := range r.plan.Inputs {
		if v.Name != name {
			continue
		}
		if want := graph.Elements(v.Shape) * v.Type.Size(); len(data) != want {
			return fmt.Errorf("input %q: %v%v takes %d bytes, not %d", name, v.Type, v.Shape, want, len(data))
		}
		r.host[v] = &graph.Tensor{Type: v.Type, Shape: v.Shape, Data: append([]byte(nil), data...)}
		return nil
	}
	return fmt.Errorf("there is no input %q", name)
}

// Step computes the next part of the pass, and reports whether it was the last. The device has computed it then.
func (r *Run) Step() (done bool, err error) {
	if r.next < len(r.plan.nodes) {
		n := r.plan.nodes[r.next]
		in := make([]*graph.Tensor, len(n.In))
		for i, v := range n.In {
			if v == nil {
				continue
			}
			if in[i] = v.Const; in[i] == nil {
				in[i] = r.host[v]
			}
		}
		out, err := r.plan.options.Eval(n, in)
		if err != nil {
			return false, fmt.Errorf("%s (%s): %w", n.Name, n.Op, err)
		}
		for i, v := range n.Out {
			if v != nil {
				r.host[v] = out[i]
			}
		}
		r.next++
	}
	return r.next == len(r.plan.nodes), nil
}

// Share is how much of the pass is done, by time: 0 before the first step, 1 after the last one.
func (r *Run) Share() float64 {
	if len(r.plan.nodes) == 0 {
		return 1
	}
	return float64(r.next) / float64(len(r.plan.nodes))
}

// OutputShape is the shape of an output of the graph, once the last step has run.
func (r *Run) OutputShape(i int) []int { return r.output(i).Shape }

// ReadOutput copies output i of the graph, in its type, dense and row-major, to dst, which is as long. The last step has run.
func (r *Run) ReadOutput(i int, dst []byte) error {
	t := r.output(i)
	if len(dst) != len(t.Data) {
		return fmt.Errorf("output %q: %v takes %d bytes, not %d", r.plan.Outputs[i].Name, t, len(t.Data), len(dst))
	}
	copy(dst, t.Data)
	return nil
}

func (r *Run) output(i int) *graph.Tensor {
	v := r.plan.Outputs[i]
	if v.Const != nil {
		return v.Const
	}
	return r.host[v]
}
