package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/plan"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// TestRefused: what is wrong is an error that names it.
func TestRefused(t *testing.T) {
	g := &graph.Graph{}
	b := graph.NewBuilder(g, infer)
	x := b.Input("x", engine.FP32, 1, 2)
	y := b.Op("Relu", nil, b.Op("Neg", nil, x))
	g.Outputs = []*graph.Value{y}
	backend := ref.New()
	defer backend.Close()
	p, err := bind(backend, g, plan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	refused := func(err error, words ...string) {
		t.Helper()
		if err == nil {
			t.Errorf("no error, want %q", words)
			return
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%v does not say %q", err, w)
			}
		}
	}
	refused(p.run.SetInput("z", nil), `"z"`)
	refused(p.run.SetInput("x", make([]byte, 7)), `"x"`, "8 bytes", "7")
	refused(p.run.ReadOutput(0, make([]byte, 9)), y.Name, "8 bytes", "9")
	small, err := backend.Alloc(p.ArenaBytes - 1)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Bind(backend, small, 0, nil)
	refused(err, "arena", "buffer")
	_, err = p.Bind(backend, p.arena, 4, nil)
	refused(err, "arena", "from 4")
	_, err = p.Bind(backend, p.arena, 0, append(slices.Clone(p.held), p.arena))
	refused(err, "weights")

	slices.Reverse(g.Nodes)
	_, err = plan.Build(g, plan.Options{Device: backend.(kernels.Networks)})
	refused(err, "before it is computed")
	g.Nodes = g.Nodes[:1]
	_, err = plan.Build(g, plan.Options{})
	refused(err, g.Nodes[0].In[0].Name)
}
