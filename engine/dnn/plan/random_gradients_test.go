package plan_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/engine/dnn/gradient"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/plan"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// TestRandomGradients compares plans of the gradients of random graphs, to inputs and to about half of their weights, with the
// operations' own values.
func TestRandomGradients(t *testing.T) {
	rounds, refused, weights := 1500, 0, 0
	if testing.Short() {
		rounds = 150
	}
	host := map[string]int{}
	gpu := cuda.New(simt.New())
	t.Cleanup(gpu.Close)
	list := append(backends(t), gpu)
	for seed := range rounds {
		w := &writer{random: rand.New(rand.NewPCG(uint64(seed), 7)), used: map[string]int{}}
		g := w.graph(1 + seed%8)
		g, err := g.Free(w.someWeights(g)...)
		if err != nil {
			t.Fatal(err)
		}
		request := gradient.Request{Seeded: []string{g.Outputs[0].Name}, Outputs: []string{g.Outputs[0].Name}}
		for _, v := range g.Inputs { // no path may lead from some
			one := request
			one.Wanted = []string{v.Name}
			if _, err := gradient.NewGradient(g, one); err == nil {
				request.Wanted = append(request.Wanted, v.Name)
				if v.Name[0] == 'c' {
					weights++
				}
			}
		}
		if len(request.Wanted) == 0 {
			refused++
			continue
		}
		back, err := gradient.NewGradient(g, request)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []float64{1, 3e-6} {
			for i, b := range list {
				if i > 0 && seed%10 > 0 && step < 1 { // the reference alone is so fast
					continue
				}
				if err := agrees(b, back, w, step, 1e-2); err != nil {
					t.Fatalf("%s: seed %d, step %g: %v\n%v", b.Name(), seed, step, err, text(back))
				}
			}
		}
		for _, n := range hostNodes(t, back) {
			host[n.Op]++
		}
	}
	t.Logf("%d of %d have no gradient, the others to %d weights too; nodes on the host: %v", refused, rounds, weights, host)
	if weights < rounds/10 {
		t.Errorf("%d graphs have gradients to %d weights", rounds, weights)
	}
	if refused > rounds/3 {
		t.Errorf("%d of %d graphs have no gradient", refused, rounds)
	}
}

func hostNodes(t *testing.T, g *graph.Graph) []*graph.Node {
	p, err := plan.Build(g, plan.Options{Device: ref.New().(kernels.Networks)})
	if err != nil {
		t.Fatal(err)
	}
	return p.HostNodes()
}

// someWeights are about half of the weights, biases, scales and shifts.
func (w *writer) someWeights(g *graph.Graph) (names []string) {
	for _, n := range g.Nodes {
		if !slices.Contains([]string{"Conv", "ConvTranspose", "MatMul", "Gemm", "BatchNormalization"}, n.Op) {
			continue
		}
		for _, v := range n.In[1:min(3, len(n.In))] {
			if v.Const != nil && w.random.IntN(2) == 0 && !slices.Contains(names, v.Name) {
				names = append(names, v.Name)
			}
		}
	}
	return names
}
