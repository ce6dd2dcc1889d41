package plan_test

import (
	"math/rand/v2"
	"testing"

	"github.com/prefillonly/prefillonly/engine/dnn/gradient"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/plan"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// TestRandomGradients compares plans of the gradients of random graphs with the operations' own values.
func TestRandomGradients(t *testing.T) {
	rounds, refused := 1500, 0
	if testing.Short() {
		rounds = 150
	}
	host := map[string]int{}
	b := ref.New()
	defer b.Close()
	for seed := range rounds {
		w := &writer{random: rand.New(rand.NewPCG(uint64(seed), 7)), used: map[string]int{}}
		g := w.graph(1 + seed%8)
		var back *graph.Graph
		for _, v := range g.Inputs { // no path may lead from some
			request := gradient.Request{Seeded: []string{g.Outputs[0].Name}, Wanted: []string{v.Name}, Outputs: []string{g.Outputs[0].Name}}
			if one, err := gradient.NewGradient(g, request); err == nil {
				back = one
			}
		}
		if back == nil {
			refused++
			continue
		}
		for _, step := range []float64{1, 3e-6} {
			if err := agrees(b, back, w, step, 1e-2); err != nil {
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
