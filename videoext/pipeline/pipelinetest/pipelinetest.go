// Package pipelinetest has the suite that every streaming pipeline passes.
package pipelinetest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
)

// Run holds a pipeline to the contract: the dearest configuration is its own truth and the cheapest costs less, the same is prepared of the same, a gradient has the parts that
// knobs act on, and what does not differ does not change the output.
func Run(t *testing.T, p pipeline.Pipeline) {
	t.Helper()
	knobs := p.Knobs()
	if p.Name() == "" || len(knobs) == 0 || p.Intervals() < 1 {
		t.Fatalf("a pipeline needs a name, knobs and intervals: %q, %d, %d", p.Name(), len(knobs), p.Intervals())
	}
	r := rand.New(rand.NewPCG(1, 2))
	cheap, dear := oneadapt.Cheapest(knobs), oneadapt.Dearest(knobs)
	for range 3 {
		interval, random := r.IntN(p.Intervals()), make(oneadapt.Config, len(knobs))
		for i := range knobs {
			random[i] = r.IntN(len(knobs[i].Places))
		}
		low, middle, high := mustPrepare(t, p, interval, cheap), mustPrepare(t, p, interval, random), mustPrepare(t, p, interval, dear)
		if !(low.Cost() >= 0 && low.Cost() <= middle.Cost() && middle.Cost() <= high.Cost() && low.Cost() < high.Cost()) {
			t.Errorf("interval %d costs %v at the least, %v at %v and %v at the most", interval, low.Cost(), middle.Cost(), random, high.Cost())
		}
		if parted, ok := middle.(pipeline.Parted); ok {
			checkCosts(t, parted, len(knobs))
		}
		if again := mustPrepare(t, p, interval, random); again.Cost() != middle.Cost() || totalChange(t, p, mustGradient(t, p, middle), middle, again) != 0 {
			t.Errorf("interval %d at %v is not the same a second time", interval, random)
		}
		truth, got := mustLook(t, p, high), mustLook(t, p, low)
		if a := p.Accuracy(truth, truth); a != 1 {
			t.Errorf("interval %d: the truth's accuracy is %v", interval, a)
		}
		if a := p.Accuracy(truth, got); !(a >= 0 && a <= 1) {
			t.Errorf("interval %d: the accuracy at the cheapest settings is %v", interval, a)
		}
		m := mustGradient(t, p, middle)
		if far := totalChange(t, p, m, middle, low) + totalChange(t, p, m, middle, high); far == 0 && m.Utility > 0.5 {
			t.Errorf("interval %d: neither the cheapest nor the dearest settings change the output of %v elements", interval, m.Utility)
		}
	}
}

// checkCosts says that what knobs cost is what all costs.
func checkCosts(t *testing.T, in pipeline.Parted, knobs int) {
	t.Helper()
	costs, all := in.Costs(), 0.0
	for _, c := range costs {
		all += c
	}
	if len(costs) != knobs || math.Abs(all-in.Cost()) > 1e-6*in.Cost() {
		t.Errorf("the costs of %d of %d knobs are %v, all cost %v", len(costs), knobs, all, in.Cost())
	}
}

func mustPrepare(t *testing.T, p pipeline.Pipeline, interval int, c oneadapt.Config) pipeline.Input {
	t.Helper()
	in, err := p.Prepare(interval, c)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func mustLook(t *testing.T, p pipeline.Pipeline, in pipeline.Input) pipeline.Result {
	t.Helper()
	r, err := p.Infer(in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// mustSlope is a gradient as it comes over the wire.
func mustGradient(t *testing.T, p pipeline.Pipeline, in pipeline.Input) *oneadapt.Map {
	t.Helper()
	m, err := p.Gradient(in)
	if err != nil {
		t.Fatal(err)
	}
	data, err := m.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = oneadapt.ReadMap(data); err != nil {
		t.Fatal(err)
	}
	return m
}

// totalChange is the sum of changes between two inputs.
func totalChange(t *testing.T, p pipeline.Pipeline, m *oneadapt.Map, against, in pipeline.Input) (sum float64) {
	t.Helper()
	changes, err := p.Changes(m, against, in)
	if err != nil {
		t.Fatal(err)
	}
	want := 1
	if p.Parts() {
		want = len(p.Knobs())
	}
	if len(changes) != want {
		t.Errorf("there are %d changes, want %d", len(changes), want)
	}
	for _, c := range changes {
		if math.IsNaN(c) || math.IsInf(c, 0) || c < 0 {
			t.Errorf("a change is %v", c)
		}
		sum += c
	}
	return sum
}
