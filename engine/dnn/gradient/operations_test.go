package gradient_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/golden"
	"github.com/prefillonly/prefillonly/engine/dnn/gradient"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops"
)

// sampled is a node of an operation whose gradient is to be checked.
type sampled struct {
	op    string
	attrs graph.Attrs
	in    []input
	outs  int // outputs; only those of floating-point numbers are seeded
}

// input is one of a node: elements between low and high, or a constant, or none.
type input struct {
	shape     []int
	low, high float64
	held      bool // constant although it is of floating-point numbers
	constant  *graph.Tensor
	values    []float64 // instead of random ones
	absent    bool
}

// random is an input whose elements are different and nowhere near a kink at an integer.
func random(shape ...int) input { return between(-2, 2, shape...) }

func between(low, high float64, shape ...int) input { return input{shape: shape, low: low, high: high} }

func (in input) kept() input { in.held = true; return in }

func ints(elements ...int64) input { return input{constant: graph.Vector(elements...)} }

var absent = input{absent: true}

// elements are shuffled places of an even grid, so that no two are close, each moved by a little.
func (in input) elements(rng *rand.Rand) *graph.Tensor {
	if in.values != nil {
		return graph.FromFloats(engine.FP64, in.shape, in.values)
	}
	n := graph.Elements(in.shape)
	x := make([]float64, n)
	for i, place := range rng.Perm(n) {
		x[i] = in.low + (in.high-in.low)*(float64(place)+0.25+0.5*rng.Float64())/float64(n)
	}
	return graph.FromFloats(engine.FP64, in.shape, x)
}

// network is a graph of the node alone, its inputs, and their elements.
func (s sampled) network(t testing.TB, rng *rand.Rand) (*graph.Graph, map[string]*graph.Tensor) {
	g := &graph.Graph{}
	b := graph.NewBuilder(g, infer)
	given := map[string]*graph.Tensor{}
	var in []*graph.Value
	for i, spec := range s.in {
		name := fmt.Sprintf("x%d", i)
		switch {
		case spec.absent:
			in = append(in, nil)
		case spec.constant != nil:
			in = append(in, b.Const(name, spec.constant))
		case spec.held:
			in = append(in, b.Const(name, spec.elements(rng)))
		default:
			given[name] = spec.elements(rng)
			in = append(in, b.Input(name, engine.FP64, spec.shape...))
		}
	}
	g.Outputs = b.Node(s.op, in, s.attrs, max(s.outs, 1))
	if err := b.Err(); err != nil {
		t.Fatal(err)
	}
	return g, given
}

func infer(n *graph.Node) error {
	op, ok := ops.Lookup(n.Op)
	if !ok {
		return fmt.Errorf("there is no operation %q", n.Op)
	}
	return op.Infer(n)
}

// evaluate computes a graph's outputs by name.
func evaluate(t testing.TB, g *graph.Graph, given map[string]*graph.Tensor) map[string]*graph.Tensor {
	t.Helper()
	out, err := golden.Evaluate(g, given)
	if err != nil {
		t.Fatal(err)
	}
	results := map[string]*graph.Tensor{}
	for i, v := range g.Outputs {
		results[v.Name] = out[i]
	}
	return results
}

// weighted is the sum of outputs times seeds.
func weighted(out, seeds map[string]*graph.Tensor) float64 {
	total := 0.0
	for name, seed := range seeds {
		y := out[name[len(engine.SeedPrefix):]].Floats()
		for i, s := range seed.Floats() {
			total += s * y[i]
		}
	}
	return total
}

// check compares a node's gradients with central differences.
func (s sampled) check(t *testing.T, rng *rand.Rand) {
	g, given := s.network(t, rng)
	var r gradient.Request
	seeds := map[string]*graph.Tensor{}
	for _, y := range g.Outputs {
		if graph.Floating(y.Type) {
			r.Seeded = append(r.Seeded, y.Name)
			seeds[engine.SeedPrefix+y.Name] = random(y.Shape...).elements(rng)
		}
	}
	for _, x := range g.Inputs {
		r.Wanted = append(r.Wanted, x.Name)
	}
	back, err := gradient.NewGradient(g, r)
	if err != nil {
		t.Fatalf("%v\n%v", err, g)
	}
	all := map[string]*graph.Tensor{}
	for _, some := range []map[string]*graph.Tensor{given, seeds} {
		for name, v := range some {
			all[name] = v
		}
	}
	got := evaluate(t, back, all)
	for name, x := range given {
		want := differences(t, g, given, seeds, name)
		have := got[engine.GradientPrefix+name]
		if !slices.Equal(have.Shape, x.Shape) {
			t.Fatalf("the gradient of %s, %v, is %v", name, x, have)
		}
		for i, d := range have.Floats() {
			if !(math.Abs(d-want[i]) <= 1e-5*max(1, math.Abs(want[i]))) {
				t.Fatalf("gradient of %s at %d of %v: %v, by differences %v\n%v", name, i, x.Shape, d, want[i], back)
			}
		}
	}
}

// differences is the gradient of an input by central differences.
func differences(t *testing.T, g *graph.Graph, given, seeds map[string]*graph.Tensor, name string) []float64 {
	const step = 1e-5
	x := given[name]
	elements := x.Floats()
	defer func() { given[name] = x }()
	at := func(i int, v float64) float64 {
		moved := slices.Clone(elements)
		moved[i] = v
		given[name] = graph.FromFloats(x.Type, x.Shape, moved)
		return weighted(evaluate(t, g, given), seeds)
	}
	out := make([]float64, len(elements))
	for i, v := range elements {
		out[i] = (at(i, v+step) - at(i, v-step)) / (2 * step)
	}
	return out
}

func TestOperationsAgainstDifferences(t *testing.T) {
	for op, samples := range samplesByOperation() {
		t.Run(op, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			for i := range 5 * len(samples) {
				s := samples[i%len(samples)](rng)
				s.op = op
				s.check(t, rng)
			}
		})
	}
}

// TestEveryOperationHasAnAnswer holds the table to saying of each operation whether it has a gradient.
func TestEveryOperationHasAnAnswer(t *testing.T) {
	samples := samplesByOperation()
	for _, name := range ops.Names() {
		op, _ := ops.Lookup(name)
		_, checked := samples[name]
		_, excused := none[name]
		switch {
		case op.Grad == nil && !excused:
			t.Errorf("%s has no gradient: write it, or say in none why there is none", name)
		case op.Grad != nil && excused:
			t.Errorf("%s has a gradient, but none says that %s", name, none[name])
		case op.Grad != nil && checked == (op.NoGrad != ""):
			t.Errorf("the gradient of %s is checked: %v, refused: %q", name, checked, op.NoGrad)
		}
	}
	for name := range none {
		if _, ok := ops.Lookup(name); !ok {
			t.Errorf("there is no operation %s", name)
		}
	}
}
