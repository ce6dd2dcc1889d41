package gradient_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/golden"
	"github.com/prefillonly/prefillonly/engine/dnn/gradient"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/engine/dnn/specialize"
)

// judged is the gradient of a network as JAX or PyTorch computes it: see tools/golden/dnn_gradient_golden.py and
// tools/peers/dnn_gradient_torch.py.
type judged struct {
	Model     string
	Shape     []int
	Low, High float64
	Z, Norm   float64
	At        []int
	Gradient  []float64
}

// sequence are numbers from low to high, as float32 has them.
func sequence(shape []int, low, high float64, first int) *graph.Tensor {
	x := golden.Uniform(first, graph.Elements(shape))
	for i, u := range x {
		x[i] = float64(float32(low + (high-low)*u))
	}
	return graph.FromFloats(engine.FP64, shape, x)
}

// widened is a network in float64, so that nothing is rounded on the way.
func widened(t *testing.T, path string) *graph.Graph {
	t.Helper()
	m, err := onnx.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	g, err := specialize.Run(m.Graph, nil)
	if err != nil {
		t.Fatal(err)
	}
	widen := func(v *graph.Value) {
		if v == nil || v.Type != engine.FP32 {
			return
		}
		if v.Type = engine.FP64; v.Const != nil {
			v.Const = graph.FromFloats(engine.FP64, v.Shape, v.Const.Floats())
		}
	}
	for _, v := range g.Inputs {
		widen(v)
	}
	for _, n := range g.Nodes {
		for _, v := range append(n.In, n.Out...) {
			widen(v)
		}
	}
	return g
}

// judgments are those of a file.
func judgments(t *testing.T, file string) (all []judged) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestNetworks compares whole networks' gradients with JAX's, or where that gives none with PyTorch's, and in one
// direction with a difference.
func TestNetworks(t *testing.T) {
	all := judgments(t, "golden.json")
	for _, other := range judgments(t, "torch.json") {
		i := slices.IndexFunc(all, func(j judged) bool { return j.Model == other.Model })
		if i < 0 {
			all = append(all, other)
			continue
		}
		if !all[i].near(&other) {
			t.Errorf("JAX and PyTorch do not agree on %s", other.Model)
		}
	}
	for _, want := range all {
		t.Run(want.Model, func(t *testing.T) {
			if testing.Short() && graph.Elements(want.Shape) > 1_000_000 {
				t.Skip("takes half a minute")
			}
			g := widened(t, filepath.Join(golden.Data(t), "models", want.Model))
			want.check(t, g)
		})
	}
}

// near says whether two judge alike.
func (want *judged) near(other *judged) bool {
	for i, v := range want.Gradient {
		if want.At[i] != other.At[i] || math.Abs(v-other.Gradient[i]) > 1e-12*want.Norm {
			return false
		}
	}
	return math.Abs(want.Z-other.Z) < 1e-9*math.Abs(want.Z) && math.Abs(want.Norm-other.Norm) < 1e-9*want.Norm
}

func (want judged) check(t *testing.T, g *graph.Graph) {
	input := g.Inputs[0].Name
	r := gradient.Request{Wanted: []string{input}}
	given := map[string]*graph.Tensor{input: sequence(want.Shape, want.Low, want.High, 0)}
	seeds := map[string]*graph.Tensor{}
	first := 1_000_000
	for _, y := range g.Outputs {
		r.Seeded, r.Outputs = append(r.Seeded, y.Name), append(r.Outputs, y.Name)
		seed := sequence(y.Shape, -1, 1, first)
		first += seed.Len()
		seeds[engine.SeedPrefix+y.Name], given[engine.SeedPrefix+y.Name] = seed, seed
	}
	back, err := gradient.NewGradient(g, r)
	if err != nil {
		t.Fatal(err)
	}
	got := evaluate(t, back, given)
	if z := weighted(got, seeds); math.Abs(z-want.Z) > 1e-8*math.Abs(want.Z) {
		t.Errorf("z is %v, not %v", z, want.Z)
	}
	d := got[engine.GradientPrefix+input].Floats()
	norm := 0.0
	for _, v := range d {
		norm += v * v
	}
	if norm = math.Sqrt(norm); math.Abs(norm-want.Norm) > 1e-6*want.Norm {
		t.Errorf("the gradient's norm is %v, not %v", norm, want.Norm)
	}
	for i, at := range want.At {
		if math.Abs(d[at]-want.Gradient[i]) > 1e-6*want.Norm/math.Sqrt(float64(len(d))) {
			t.Fatalf("the gradient at %d is %v, not %v", at, d[at], want.Gradient[i])
		}
	}
	if len(d) < 300_000 { // others take long
		along(t, g, given, seeds, input, d)
	}
	t.Logf("%d nodes forward, %d with the gradient", len(g.Nodes), len(back.Nodes))
}

// along compares a gradient d with a difference in the direction of its signs.
func along(t *testing.T, g *graph.Graph, given, seeds map[string]*graph.Tensor, input string, d []float64) {
	t.Helper()
	const step = 1e-6
	x, want := given[input], 0.0
	at := func(step float64) float64 {
		moved := x.Floats()
		for i, v := range d {
			moved[i] += step * math.Copysign(1, v)
		}
		given[input] = graph.FromFloats(engine.FP64, x.Shape, moved)
		return weighted(evaluate(t, g, given), seeds)
	}
	for _, v := range d {
		want += math.Abs(v)
	}
	if got := (at(step) - at(-step)) / (2 * step); math.Abs(got-want) > 1e-3*want {
		t.Errorf("z grows by %v in the direction of the signs of its gradient, which says %v", got, want)
	}
}
