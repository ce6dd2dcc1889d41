package plan_test

import (
	"testing"

	"github.com/prefillonly/prefillonly/engine/dnn/golden"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/engine/dnn/plan"
	"github.com/prefillonly/prefillonly/engine/dnn/specialize"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// Of inputs, mostElements are computed by the reference's kernels within seconds, and mostSimulated by those for
// GPUs, one thread after another.
const mostElements, mostSimulated = 200000, 130000

// TestModels: plans of real networks, at several sizes, give what ONNX Runtime gives.
func TestModels(t *testing.T) {
	for _, c := range golden.Cases(t) {
		t.Run(c.Name(), func(t *testing.T) {
			m, err := onnx.Open(c.Path(t))
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			g, err := specialize.Run(m.Graph, c.Shapes())
			if err != nil {
				t.Fatal(err)
			}
			elements := 0
			for _, v := range g.Inputs {
				elements += graph.Elements(v.Shape)
			}
			var gpu kernels.Backend = cuda.New(simt.New())
			t.Cleanup(gpu.Close)
			for _, b := range append(backends(t), gpu) {
				if b.Name() == "ref" && elements > mostElements || b == gpu && elements > mostSimulated {
					continue
				}
				equalsGolden(t, g, &c, b)
			}
		})
	}
}

func equalsGolden(t *testing.T, g *graph.Graph, c *golden.Case, b kernels.Backend) {
	p, err := bind(b, g, plan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.pass(c.Tensors())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d of %d nodes on the host, %d KiB, %.1f ms", b.Name(), len(p.HostNodes()), len(g.Nodes), p.ArenaBytes>>10, p.Seconds*1e3)
	for i := range c.Outputs {
		if err := c.Outputs[i].Compare(got[i]); err != nil {
			t.Errorf("%s: output %q: %v", b.Name(), g.Outputs[i].Name, err)
		}
	}
}

// backends are the reference and, where it can be built, that of the processor.
func backends(t *testing.T) []kernels.Backend {
	list := []kernels.Backend{ref.New()}
	if b, err := cpu.New(cpu.Config{Threads: 2}); err == nil {
		list = append(list, b)
	} else {
		t.Logf("without the processor's kernels: %v", err)
	}
	t.Cleanup(func() {
		for _, b := range list {
			b.Close()
		}
	})
	return list
}
