package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/engine/dnn/lower"
)

// Call is a call of the device, or a node of the host's, in words, with the time that it took.
type Call struct {
	Step  int
	What  string  // operation, shapes with strides, nodes
	FLOPs float64 // those of element-wise programs are roughly counted
	Took  time.Duration
}

// Profile runs passes after Start and SetInput, and returns how long each call took, at the least of all passes. The device has
// finished each before the next one begins, so that together they take longer than a pass.
func (r *Run) Profile(passes int) ([]Call, error) {
	var calls []Call
	for pass := range passes {
		i := 0
		for at, step := range r.plan.steps {
			for _, c := range step {
				start := time.Now()
				if err := r.runCall(c); err != nil {
					return nil, err
				}
				if err := r.backend.Sync(); err != nil {
					return nil, err
				}
				took := time.Since(start)
				if pass == 0 {
					calls = append(calls, Call{at, c.String(), c.flops(), took})
				}
				calls[i].Took = min(calls[i].Took, took)
				i++
			}
		}
	}
	return calls, nil
}

func (c Call) String() string {
	return fmt.Sprintf("%3d %8.1f us %6.1f GFLOP/s  %s", c.Step, float64(c.Took.Nanoseconds())/1e3, c.FLOPs/c.Took.Seconds()/1e9, c.What)
}

// String is what is called, on what.
func (c *call) String() string {
	var nodes []string
	for _, n := range c.nodes {
		nodes = append(nodes, n.Op)
	}
	if len(nodes) > 5 {
		nodes = append(nodes[:5], fmt.Sprintf("%d more", len(nodes)-5))
	}
	s := c.name()
	if h, ok := c.kind.(*hosted); ok {
		for _, v := range h.op.Out {
			if v != nil {
				s += fmt.Sprintf(" %v%v", v.Type, v.Shape)
			}
		}
		return s
	}
	s += " " + c.dst.String() + " of"
	for _, v := range c.operands {
		s += " " + v.String()
	}
	return s + " (" + strings.Join(nodes, " ") + ")"
}

// name is the operation with its figures.
func (c *call) name() string {
	switch kind := c.kind.(type) {
	case *hosted:
		return "host " + kind.op.Kind.(*lower.Host).Node.Op
	case *mapped:
		return fmt.Sprintf("map (%d)", len(kind.program.Code))
	case *lower.Conv:
		f, then := kind.Filter.Spec, ""
		if kind.Then != nil {
			then = fmt.Sprintf(" then map (%d)", len(kind.Then.Code))
		}
		return fmt.Sprintf("convolution%s %d>%d/%d %v strides %v", then, f.In, f.Out, f.Groups, f.Kernel, f.Strides)
	case *lower.ConvBackward:
		f := kind.Filter.Spec
		return fmt.Sprintf("convolution backward %d<%d/%d %v strides %v", f.In, f.Out, f.Groups, f.Kernel, f.Strides)
	case *lower.Pack:
		return "packing"
	case *lower.Pool:
		return fmt.Sprintf("pool %v strides %v", kind.Spec.Kernel, kind.Spec.Strides)
	case *lower.PoolBackward:
		return fmt.Sprintf("pool backward %v strides %v", kind.Spec.Kernel, kind.Spec.Strides)
	case *lower.Interpolate:
		return fmt.Sprintf("interpolation along %d", kind.Dim)
	case *lower.MatMul:
		return "matrix product"
	case *lower.Reduce:
		return "reduction"
	}
	return ""
}

func (v view) String() string { return fmt.Sprintf("%v%v", v.shape, v.stride) }
