package plan_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/golden"
	"github.com/prefillonly/prefillonly/engine/dnn/gradient"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/engine/dnn/plan"
	"github.com/prefillonly/prefillonly/engine/dnn/specialize"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
)

// TestGradientsOfModels compares plans of real networks' gradients with the operations' own values. Rounding sends the
// gradient of some activations past a kink the other way, so that a few elements differ by more than most.
func TestGradientsOfModels(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range golden.Cases(t) {
		elements := graph.Elements(c.Inputs[0].Shape)
		frames := fmt.Sprint(c.Model, c.Inputs[0].Shape[0])
		if elements > 2*mostElements || seen[frames] {
			continue
		}
		seen[frames] = true
		t.Run(c.Name(), func(t *testing.T) {
			g := special(t, c)
			if _, err := gradient.NewGradient(g, everything(g)); err != nil {
				t.Skip(err)
			}
			back := differentiated(t, g)
			inputs := seeded(back, c.Tensors())
			want, err := golden.Evaluate(back, inputs)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range backends(t) {
				if b.Name() == "ref" && elements > mostElements/2 {
					continue
				}
				p, err := bind(b, back, plan.Options{})
				if err != nil {
					t.Fatal(err)
				}
				got, err := p.pass(inputs)
				if err != nil {
					t.Fatal(err)
				}
				for i := range got {
					if off := distance(got[i].Floats(), want[i].Floats()); !(off < 2e-3) {
						t.Errorf("%s: output %q is off by %g of its norm", b.Name(), back.Outputs[i].Name, off)
					}
				}
			}
		})
	}
}

// byTorch is gradients of a network that PyTorch computed in float64: see tools/peers/dnn_gradient_torch.py.
type byTorch struct {
	Model     string
	Shape     []int
	Low, High float64
	sampled   // of the input's
	Weights   []struct {
		Name string
		sampled
	}
}

// sampled is a tensor's norm, and a few of its elements.
type sampled struct {
	Norm     float64
	At       []int
	Gradient []float64
}

// apart is how far a tensor is from it: the norms, in parts of that norm, and the elements, in parts of what they are on average.
func (s *sampled) apart(t *graph.Tensor) (norms, elements float64) {
	have, norm, most := t.Floats(), 0.0, 0.0
	for _, v := range have {
		norm += v * v
	}
	for i, at := range s.At {
		most = max(most, math.Abs(have[at]-s.Gradient[i]))
	}
	return math.Abs(math.Sqrt(norm)-s.Norm) / s.Norm, most / s.Norm * math.Sqrt(float64(len(have)))
}

// TestGradientsByPyTorch compares gradients to inputs and to all weights that the processor's kernels compute with PyTorch's.
func TestGradientsByPyTorch(t *testing.T) {
	backend, err := cpu.New(cpu.Config{Threads: 2})
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(backend.Close)
	text, err := os.ReadFile("../gradient/testdata/torch.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []byTorch
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for _, want := range all {
		t.Run(want.Model, func(t *testing.T) { want.check(t, backend) })
	}
}

func (want *byTorch) check(t *testing.T, backend kernels.Backend) {
	m, err := onnx.Open(filepath.Join(golden.Data(t), "models", want.Model))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var weights []string
	for _, w := range want.Weights {
		weights = append(weights, w.Name)
	}
	free, err := m.Graph.Free(weights...)
	if err != nil {
		t.Fatal(err)
	}
	g, err := specialize.Run(free, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := everything(g)
	r.Wanted, r.Outputs = append(r.Wanted, weights...), nil
	back, err := gradient.NewGradient(g, r)
	if err != nil {
		t.Fatal(err)
	}
	inputs := map[string]*graph.Tensor{g.Inputs[0].Name: uniform(want.Shape, want.Low, want.High, 0)}
	for _, v := range constants(m.Graph) {
		inputs[v.Name] = v.Const
	}
	first := 1_000_000
	for _, y := range g.Outputs {
		inputs[engine.SeedPrefix+y.Name] = uniform(y.Shape, -1, 1, first)
		first += graph.Elements(y.Shape)
	}
	p, err := bind(backend, back, plan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.pass(onlyInputs(back, inputs))
	if err != nil {
		t.Fatal(err)
	}
	checked := append([]sampled{want.sampled}, make([]sampled, 0, len(weights))...)
	for _, w := range want.Weights {
		checked = append(checked, w.sampled)
	}
	d, at := got[0].Floats(), make([]float64, len(want.At))
	for i, place := range want.At {
		at[i] = d[place]
	}
	if off := distance(at, want.Gradient); !(off < 1e-2) {
		t.Errorf("%d elements of the input's gradient are off by %g of their norm", len(at), off)
	}
	for i, s := range checked {
		norms, elements := s.apart(got[i])
		if !(norms < 3e-2) || !(elements < 5e-2) {
			t.Errorf("the norm of %s is off by %g of it, elements by %g of their mean", back.Outputs[i].Name, norms, elements)
		}
	}
}

// constants are those of a graph's nodes.
func constants(g *graph.Graph) (list []*graph.Value) {
	for _, n := range g.Nodes {
		for _, v := range n.In {
			if v != nil && v.Const != nil {
				list = append(list, v)
			}
		}
	}
	return list
}

// onlyInputs are the tensors that are inputs of g.
func onlyInputs(g *graph.Graph, tensors map[string]*graph.Tensor) map[string]*graph.Tensor {
	inputs := map[string]*graph.Tensor{}
	for _, v := range g.Inputs {
		inputs[v.Name] = tensors[v.Name]
	}
	return inputs
}

// uniform are numbers from low to high, in float32.
func uniform(shape []int, low, high float64, first int) *graph.Tensor {
	x := golden.Uniform(first, graph.Elements(shape))
	for i, u := range x {
		x[i] = low + (high-low)*u
	}
	return graph.FromFloats(engine.FP32, shape, x)
}

// special is the network of a case.
func special(t testing.TB, c golden.Case) *graph.Graph {
	t.Helper()
	m, err := onnx.Open(c.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	g, err := specialize.Run(m.Graph, c.Shapes())
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// everything is the gradient of all outputs to the first input, and the outputs.
func everything(g *graph.Graph) gradient.Request {
	r := gradient.Request{Wanted: []string{g.Inputs[0].Name}}
	for _, y := range g.Outputs {
		if graph.Floating(y.Type) {
			r.Seeded, r.Outputs = append(r.Seeded, y.Name), append(r.Outputs, y.Name)
		}
	}
	return r
}

func differentiated(t testing.TB, g *graph.Graph) *graph.Graph {
	t.Helper()
	back, err := gradient.NewGradient(g, everything(g))
	if err != nil {
		t.Fatal(err)
	}
	return back
}

// seeded are inputs with random ones where there are none.
func seeded(g *graph.Graph, inputs map[string]*graph.Tensor) map[string]*graph.Tensor {
	w := &writer{random: rand.New(rand.NewPCG(1, 5))}
	for _, v := range g.Inputs {
		if inputs[v.Name] == nil {
			inputs[v.Name] = w.tensor(v.Type, v.Shape...)
		}
	}
	return inputs
}

// distance is that of two tensors, in parts of the second one's norm.
func distance(got, want []float64) float64 {
	apart, norm := 0.0, 0.0
	for i, v := range want {
		apart += (got[i] - v) * (got[i] - v)
		norm += v * v
	}
	return math.Sqrt(apart / norm)
}

// BenchmarkGradient compares a pass forward and one with the gradient, by turns: the least time of each.
func BenchmarkGradient(b *testing.B) {
	backend, err := cpu.New(cpu.Config{Threads: 1})
	if err != nil {
		b.Skip(err)
	}
	defer backend.Close()
	for _, c := range golden.Cases(b) {
		if c.Name() != "yolox_nano_416 [1 3 416 416]" {
			continue
		}
		g := special(b, c)
		forward, both := prepared(b, backend, g, &c), prepared(b, backend, differentiated(b, g), &c)
		var least [2]time.Duration
		for b.Loop() {
			for i, p := range []*bound{forward, both} {
				start := time.Now()
				p.run.Start()
				p.steps(b)
				if took := time.Since(start); least[i] == 0 || took < least[i] {
					least[i] = took
				}
			}
		}
		b.ReportMetric(float64(least[0].Microseconds())/1e3, "ms-forward")
		b.ReportMetric(float64(least[1].Microseconds())/1e3, "ms-both")
		b.ReportMetric(float64(least[1])/float64(least[0]), "ratio")
	}
}

// prepared is a plan with inputs.
func prepared(b testing.TB, backend kernels.Backend, g *graph.Graph, c *golden.Case) *bound {
	p, err := bind(backend, g, plan.Options{})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := p.pass(seeded(g, c.Tensors())); err != nil {
		b.Fatal(err)
	}
	return &p
}

func (p *bound) steps(b testing.TB) {
	for done := false; !done; {
		var err error
		if done, err = p.run.Step(); err != nil {
			b.Fatal(err)
		}
	}
}
