package plan_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/prefillonly/prefillonly/engine/dnn/dnntest"
	"github.com/prefillonly/prefillonly/engine/dnn/golden"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/plan"
	"github.com/prefillonly/prefillonly/engine/dnn/specialize"
	"github.com/prefillonly/prefillonly/kernels"
)

// TestONNX runs ONNX's own tests of operations through plans: as they are and, since most operations are lowered only
// where shapes, axes and weights are constant, with all inputs but the first one constant. What the table of operations refuses is
// left out here.
func TestONNX(t *testing.T) {
	cases, list := dnntest.Cases(t, "../../.."), backends(t)
	passed, lowered := 0, map[string]bool{}
	for _, c := range cases {
		for _, fixed := range []bool{false, true} {
			for _, b := range list {
				n, err := node(c, b, fixed, lowered)
				if err != nil {
					t.Errorf("%s, constants %t, %s: %v", c.Name, fixed, b.Name(), err)
				}
				passed += n
			}
		}
	}
	t.Logf("%d passes of %d tests are right; %d operations were computed on the device", passed, len(cases), len(lowered))
}

// node runs the sets of a test. It notes operations that the host had no part in.
func node(c dnntest.Case, b kernels.Backend, fixed bool, lowered map[string]bool) (passed int, err error) {
	m, err := c.Open()
	if err != nil {
		return 0, nil
	}
	defer m.Close()
	sets, err := c.Sets(m)
	if err != nil {
		return 0, nil
	}
	for _, s := range sets {
		g, inputs := withInputs(m.Graph, s.In, fixed)
		shapes := map[string][]int{}
		for name, in := range inputs {
			shapes[name] = in.Shape
		}
		if g, err = specialize.Run(g, shapes); err != nil {
			return passed, nil
		}
		if _, err := golden.Evaluate(g, inputs); err != nil {
			return passed, nil
		}
		p, err := bind(b, g, plan.Options{})
		if err != nil {
			return passed, err
		}
		got, err := p.pass(inputs)
		if err != nil {
			return passed, err
		}
		for i := range got {
			if err := near(got[i], s.Out[i]); err != nil {
				return passed, fmt.Errorf("output %d: %w", i, err)
			}
		}
		passed++
		if host := p.HostNodes(); len(host) == 0 {
			for _, n := range g.Nodes {
				lowered[n.Op] = true
			}
		}
	}
	return passed, nil
}

// withInputs is the graph with all inputs but the first one constant, if fixed, and the inputs that are left.
func withInputs(g *graph.Graph, in []*graph.Tensor, fixed bool) (*graph.Graph, map[string]*graph.Tensor) {
	inputs := map[string]*graph.Tensor{}
	var left []*graph.Value
	for i, v := range g.Inputs {
		if fixed && i > 0 {
			v.Const = in[i]
			v.Set(in[i].Type, in[i].Shape)
			continue
		}
		left = append(left, v)
		inputs[v.Name] = in[i]
	}
	copied := *g
	copied.Inputs = left
	return &copied, inputs
}

// near compares as ONNX's own runner of these tests does, but for what is small beside the largest element: sums are
// of float32 here.
func near(got, want *graph.Tensor) error {
	if got.String() != want.String() {
		return fmt.Errorf("%v, not %v", got, want)
	}
	x, y := got.Floats(), want.Floats()
	most := 0.0
	for _, v := range y {
		if !math.IsInf(v, 0) {
			most = max(most, math.Abs(v))
		}
	}
	for i := range x {
		if d := math.Abs(x[i] - y[i]); !(d <= 1e-7+1e-3*math.Abs(y[i])+1e-6*most) && x[i] != y[i] && !(x[i] != x[i] && y[i] != y[i]) {
			return fmt.Errorf("element %d is %g, not %g", i, x[i], y[i])
		}
	}
	return nil
}
