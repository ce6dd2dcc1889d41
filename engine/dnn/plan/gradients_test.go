package plan_test

import (
	"math/rand/v2"
	"testing"

	"github.com/prefillonly/prefillonly/engine/dnn/golden"
	"github.com/prefillonly/prefillonly/engine/dnn/gradient"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/engine/dnn/plan"
	"github.com/prefillonly/prefillonly/engine/dnn/specialize"
)

// TestRandomGradients compares plans of the gradients of random graphs with the operations' own values.
func TestRandomGradients(t *testing.T) {
	rounds, refused := 1500, 0
	if testing.Short() {
		rounds = 150
	}
	host := map[string]int{}
	for seed := range rounds {
		w := &writer{random: rand.New(rand.NewPCG(uint64(seed), 7)), used: map[string]int{}}
		g := w.graph(1 + seed%8)
		var back *graph.Graph
		for _, v := range g.Inputs { // no path may lead from some
			request := gradient.Request{Seeded: []string{g.Outputs[0].Name}, Wanted: []string{v.Name}, Outputs: []string{g.Outputs[0].Name}}
			if one, err := gradient.Of(g, request); err == nil {
				back = one
			}
		}
		if back == nil {
			refused++
			continue
		}
		for _, step := range []float64{1, 3e-6} {
			if err := agrees(back, w, step, 1e-2); err != nil {
				t.Fatalf("seed %d, step %g: %v\n%v", seed, step, err, text(back))
			}
		}
		for _, n := range hostNodes(t, back) {
			host[n.Op]++
		}
	}
	t.Logf("%d of %d have no gradient; nodes on the host: %v", refused, rounds, host)
	if refused > rounds/3 {
		t.Errorf("%d of %d graphs have no gradient", refused, rounds)
	}
}

func hostNodes(t *testing.T, g *graph.Graph) []*graph.Node {
	p, err := plan.Build(g, plan.Options{Networks: true})
	if err != nil {
		t.Fatal(err)
	}
	return p.HostNodes()
}

// TestGradientsOfNetworks: all of a detector's gradient is computed on the device, and equals the operations' own
// values.
func TestGradientsOfNetworks(t *testing.T) {
	c := golden.Case{Model: "yolox_nano_416"}
	m, err := onnx.Open(c.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	g, err := specialize.Run(m.Graph, map[string][]int{"images": {1, 3, 64, 96}})
	if err != nil {
		t.Fatal(err)
	}
	back, err := gradient.Of(g, gradient.Request{Seeded: []string{"output"}, Wanted: []string{"images"}, Outputs: []string{"output"}})
	if err != nil {
		t.Fatal(err)
	}
	if host := hostNodes(t, back); len(host) > 0 {
		t.Errorf("%d nodes are the host's, such as %v", len(host), host[0])
	}
	w := &writer{random: rand.New(rand.NewPCG(1, 5))}
	inputs := map[string]*graph.Tensor{}
	for _, v := range back.Inputs {
		inputs[v.Name] = w.tensor(v.Type, v.Shape...)
	}
	want, err := golden.Evaluate(back, inputs)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range backends(t) {
		p, err := bind(b, back, plan.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.pass(inputs)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if apart, err := differ(got[i], want[i]); err != nil || apart > 1e-4 {
				t.Errorf("%s: output %q is %g of its range off: %v", b.Name(), back.Outputs[i].Name, apart, err)
			}
		}
	}
}
