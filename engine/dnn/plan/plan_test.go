package plan_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/golden"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops"
	"github.com/prefillonly/prefillonly/engine/dnn/plan"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

func infer(n *graph.Node) error {
	op, ok := ops.Lookup(n.Op)
	if !ok {
		return fmt.Errorf("there is no %s", n.Op)
	}
	return op.Infer(n)
}

// bound is a plan that is ready to run, its arena between two margins that nothing may write to.
type bound struct {
	*plan.Plan
	run     *plan.Run
	backend kernels.Backend
	arena   kernels.Buffer
	held    []kernels.Held
}

var margin = [64]byte{0x5a, 0xa5, 0x5a}

func bind(b kernels.Backend, g *graph.Graph, o plan.Options) (p bound, err error) {
	p.backend = b
	o.Device, _ = b.(kernels.Networks)
	if p.Plan, err = plan.Build(g, o); err != nil {
		return p, err
	}
	if p.arena, err = b.Alloc(p.ArenaBytes + 128); err != nil {
		return p, err
	}
	b.Write(p.arena, 0, margin[:])
	b.Write(p.arena, 64+p.ArenaBytes, margin[:])
	for i := range p.Weights {
		w := &p.Weights[i]
		var constants []*graph.Tensor
		for _, v := range w.Constants {
			constants = append(constants, v.Const)
		}
		h, err := w.Make(b.(kernels.Networks), constants)
		if err != nil {
			return p, err
		}
		p.held = append(p.held, h)
	}
	p.run, err = p.Bind(b, p.arena, 64, p.held)
	return p, err
}

// pass runs a pass.
func (p *bound) pass(inputs map[string]*graph.Tensor) ([]*graph.Tensor, error) {
	r := p.run
	r.Start()
	for name, t := range inputs {
		if err := r.SetInput(name, t.Data); err != nil {
			return nil, err
		}
	}
	for done, before := false, 0.0; !done; before = r.Share() {
		var err error
		if done, err = r.Step(); err != nil {
			return nil, err
		}
		if share := r.Share(); share < before || (share == 1) != done {
			return nil, fmt.Errorf("share %g after %g, done: %t", share, before, done)
		}
	}
	var out []*graph.Tensor
	for i, v := range p.Outputs {
		t := graph.NewTensor(v.Type, r.OutputShape(i)...)
		if err := r.ReadOutput(i, t.Data); err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, p.intact()
}

// intact says whether the margins are as they were.
func (p *bound) intact() error {
	for _, at := range []int64{0, 64 + p.ArenaBytes} {
		var found [64]byte
		p.backend.Read(found[:], p.arena, at)
		if found != margin {
			return fmt.Errorf("something was written beside the arena, at %d of %d bytes", at, p.ArenaBytes)
		}
	}
	return nil
}

// differ says how far tensors are apart, as a share of the range of the second one.
func differ(got, want *graph.Tensor) (float64, error) {
	if got.Type != want.Type || fmt.Sprint(got.Shape) != fmt.Sprint(want.Shape) {
		return 0, fmt.Errorf("%v, want %v", got, want)
	}
	a, b := got.Floats(), want.Floats()
	low, high, worst := 0.0, 1e-3, 0.0
	for i, x := range b {
		if math.IsNaN(x) != math.IsNaN(a[i]) || math.IsInf(x, 0) && a[i] != x {
			return 0, fmt.Errorf("element %d is %g, want %g", i, a[i], x)
		}
		if math.IsNaN(x) || math.IsInf(x, 0) {
			continue
		}
		low, high, worst = min(low, x), max(high, x), max(worst, math.Abs(a[i]-x))
	}
	return worst / (high - low), nil
}

// TestRandomGraphs compares plans of random graphs with the operations' own values: outputs, a second pass with other
// inputs, and steps so short that all that can be split is.
func TestRandomGraphs(t *testing.T) {
	rounds := 1500
	if testing.Short() {
		rounds = 150
	}
	used := map[string]int{}
	for seed := range rounds {
		w := &writer{random: rand.New(rand.NewPCG(uint64(seed), 5)), used: used}
		g := w.graph(1 + seed%12)
		for _, step := range []float64{1, 3e-6} {
			b := ref.New().(kernels.Networks)
			for _, b := range []kernels.Backend{b, importer{b}} {
				if err := agrees(b, g, w, step, 1e-4); err != nil {
					t.Fatalf("seed %d, step %g, %T: %v\n%v", seed, step, b, err, text(g))
				}
			}
			b.Close()
		}
	}
	for name := range w0.moves() {
		if used[name] == 0 {
			t.Errorf("no graph had %s", name)
		}
	}
}

func text(g *graph.Graph) (s string) {
	for _, n := range g.Nodes {
		s += fmt.Sprintf("  %v %v:", n.Op, n.Attrs)
		for _, v := range n.In {
			if v != nil {
				s += fmt.Sprintf(" %s%v", v.Name, v.Shape)
			}
		}
		for _, v := range n.Out {
			if v != nil {
				s += fmt.Sprintf(" -> %s%v", v.Name, v.Shape)
			}
		}
		s += "\n"
	}
	for _, v := range g.Outputs {
		s += "  output " + v.Name + "\n"
	}
	return s
}

// importer is a device that reads host memory.
type importer struct{ kernels.Networks }

func (b importer) Import(dst, src kernels.Tensor, data []byte) {
	buf, err := b.Alloc(int64(len(data)))
	if err != nil {
		panic(err)
	}
	defer buf.Free()
	b.Write(buf, 0, data)
	src.Buf = buf
	b.Map(dst, &kernels.Program{Operands: 1, Code: []kernels.Instruction{{Op: kernels.Copy}}}, src)
}

func agrees(b kernels.Backend, g *graph.Graph, w *writer, step, tolerance float64) error {
	p, err := bind(b, g, plan.Options{Step: seconds(step)})
	if err != nil {
		return err
	}
	for range 2 {
		inputs := map[string]*graph.Tensor{}
		for _, v := range g.Inputs {
			inputs[v.Name] = w.tensor(v.Type, v.Shape...)
		}
		want, err := golden.Evaluate(g, inputs)
		if err != nil {
			return err
		}
		got, err := p.pass(inputs)
		if err != nil {
			return err
		}
		for i := range got {
			apart, err := differ(got[i], want[i])
			if err == nil && apart > tolerance && !(strings.HasPrefix(g.Outputs[i].Name, engine.GradientPrefix+"c") && apart <= 50*rounded(g, inputs, want, i)) {
				err = fmt.Errorf("%g of the range apart", apart)
			}
			if err != nil {
				return fmt.Errorf("output %d (%s): %w", i, g.Outputs[i].Name, err)
			}
		}
	}
	return nil
}

// rounded is how far output i is apart where each element of the inputs is off by a unit in its last place or so: what is left of
// sums that cancel, such as gradients to what a normalisation takes away, may be nothing but rounding.
func rounded(g *graph.Graph, inputs map[string]*graph.Tensor, want []*graph.Tensor, i int) float64 {
	moved := map[string]*graph.Tensor{}
	random := rand.New(rand.NewPCG(1, 1))
	for name, t := range inputs {
		elements := t.Floats()
		for k := range elements {
			if graph.Floating(t.Type) {
				elements[k] *= 1 + 1e-7*random.NormFloat64()
			}
		}
		moved[name] = graph.FromFloats(t.Type, t.Shape, elements)
	}
	got, err := golden.Evaluate(g, moved)
	if err != nil {
		return 0
	}
	apart, _ := differ(got[i], want[i])
	return apart
}

var w0 = &writer{}

// tensor has random elements of a type.
func (w *writer) tensor(t engine.DType, shape ...int) *graph.Tensor {
	elements := make([]float64, graph.Elements(shape))
	for i := range elements {
		elements[i] = w.random.NormFloat64()
		if !graph.Floating(t) {
			elements[i] = float64(w.random.IntN(2))
		}
	}
	return graph.FromFloats(t, shape, elements)
}
