package pipeline_test

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
	"github.com/prefillonly/prefillonly/videoext/pipeline/pipelinetest"
)

// TestTonesAreShort: a pipeline is under 100 lines, as docs/pipelines.md says.
func TestTonesAreShort(t *testing.T) {
	source, err := os.ReadFile("pipelinetest/tones.go")
	if lines := bytes.Count(source, []byte("\n")); err != nil || lines < 50 || lines >= 100 {
		t.Errorf("the pipeline that is an example has %d lines: %v", lines, err)
	}
}

func TestSuite(t *testing.T) {
	pipelinetest.Run(t, pipelinetest.NewTones(6, false))
	pipelinetest.Run(t, pipelinetest.NewTones(6, true))
}

func run(t *testing.T, p pipeline.Pipeline, w pipeline.Way) pipeline.Step {
	t.Helper()
	steps, err := pipeline.NewLab(p).Run(w)
	if err != nil {
		t.Fatal(err)
	}
	return pipeline.Mean(steps)
}

func ascent(start func([]oneadapt.Knob) oneadapt.Config, parts bool) *pipeline.OneAdapt {
	return &pipeline.OneAdapt{Options: oneadapt.Usual(), Lag: 1, Rule: func(knobs []oneadapt.Knob) (oneadapt.Rule, error) {
		return oneadapt.NewAscent(oneadapt.Ascent{Rate: 0.5, Weight: 0.3, Gain: 1, Separable: parts, Elastic: true}, knobs, start(knobs))
	}}
}

// TestOneAdaptBeatsFixed: gradients find the numbers that count, so that fewer bytes have an accuracy that a fixed configuration has not for as many.
func TestOneAdaptBeatsFixed(t *testing.T) {
	for _, parts := range []bool{true, false} {
		p := pipelinetest.NewTones(6, parts)
		got := run(t, p, ascent(oneadapt.Dearest, parts))
		for setting := range 5 {
			fixed := run(t, p, pipeline.Fixed{Config: slices.Repeat(oneadapt.Config{setting}, 6)})
			if fixed.Accuracy >= got.Accuracy && fixed.Cost <= got.Cost {
				t.Errorf("parts %v: %.3f for %.3f of the bytes, and setting %d has %.3f for %.3f", parts, got.Accuracy, got.Cost, setting, fixed.Accuracy, fixed.Cost)
			}
		}
		if got.Accuracy < 0.9 || got.Cost > 0.8 || got.Gradients != 20 || got.Inferences != 20 || got.Feedback == 0 {
			t.Errorf("parts %v: %+v", parts, got)
		}
	}
}

// TestWithoutGradients: they are lost for a while, and nothing else is.
func TestWithoutGradients(t *testing.T) {
	w := ascent(oneadapt.Dearest, true)
	w.Lose = func(interval int) bool { return interval%3 > 0 }
	if got := run(t, pipelinetest.NewTones(6, true), w); got.Accuracy < 0.9 || got.Cost > 0.8 || got.Gradients != 7 {
		t.Errorf("%+v", got)
	}
}

// TestLag: gradients of the very interval and of two before come when they are said to, and Move has what it is of.
func TestLag(t *testing.T) {
	for _, lag := range []int{0, 1, 2} {
		w := ascent(oneadapt.Dearest, true)
		w.Lag = lag
		moved := 0
		w.Move = func(m *oneadapt.Map, of, in int) *oneadapt.Map {
			if moved++; in-of != lag {
				t.Errorf("lag %d: a gradient of interval %d comes in %d", lag, of, in)
			}
			return m
		}
		got := run(t, pipelinetest.NewTones(6, true), w)
		if want := 20 - max(lag, 1); moved != want || got.Accuracy < 0.9 || got.Cost > 0.85 {
			t.Errorf("lag %d: %d gradients came, not %d: %+v", lag, moved, want, got)
		}
	}
}

// TestGroups: knobs that move together have one gradient, whose size is that of all.
func TestGroups(t *testing.T) {
	p := pipelinetest.NewTones(6, true)
	accuracies, outputs, err := pipeline.NewLab(grouped{p}).Gradients(0, slices.Repeat(oneadapt.Config{2}, 6))
	if err != nil || len(accuracies) != 2 || len(outputs) != 2 {
		t.Fatalf("%v %v %v", accuracies, outputs, err)
	}
	all, _, err := pipeline.NewLab(p).Gradients(0, slices.Repeat(oneadapt.Config{2}, 6))
	if err != nil || len(all) != 6 {
		t.Fatalf("%v %v", all, err)
	}
	if one := slices.Max(all[:3]); accuracies[0] < one {
		t.Errorf("three numbers change accuracy by %v, and one of them by %v", accuracies[0], one)
	}
}

type grouped struct{ pipeline.Pipeline }

func (grouped) Groups() [][]int { return [][]int{{0, 1, 2}, {3, 4, 5}} }

// TestProfiled: the dearest configuration, which the stream was sent at, takes no look of its own, and the server makes candidates without the sensor.
func TestProfiled(t *testing.T) {
	p := pipelinetest.NewTones(2, false)
	grid := pipeline.Grid(p.Knobs(), 2)
	if len(grid) != 9 {
		t.Errorf("the grid has %d configurations", len(grid))
	}
	got := run(t, p, &pipeline.Profiled{Every: 10, Goal: pipeline.Goal{Weight: 0.3}, Search: pipeline.All(grid)})
	if got.Inferences != 20+2*8 || got.Prepared != 20 || got.Accuracy < 0.85 || got.Cost >= 1 {
		t.Errorf("%+v", got)
	}
}

// TestProfilePays: intervals that are profiled cost what the dearest configuration does, and a server with little time keeps the stream waiting for what is better.
func TestProfilePays(t *testing.T) {
	p := pipelinetest.NewTones(2, false)
	search := pipeline.All(pipeline.Grid(p.Knobs(), 2))
	for _, test := range []struct {
		spare float64
		long  int
		every int
		full  []int // intervals that cost all
		looks int
	}{
		{0, 1, 10, []int{0, 10}, 20 + 16},
		{0, 2, 10, []int{0, 1, 10, 11}, 20 + 32},
		{2, 1, 10, []int{0, 1, 2, 3, 10}, 20 + 16}, // 8 looks in 4 intervals
		{2, 1, 3, []int{0, 1, 2, 3, 4, 8, 12, 16}, 20 + 40},
		{0.25, 1, 3, nil, 20 + 5}, // it is never done
	} {
		w := &pipeline.Profiled{Every: test.every, Long: test.long, Goal: pipeline.Goal{Budget: 0.5}, Search: search, Spare: test.spare}
		steps, err := pipeline.NewLab(p).Run(w)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range steps {
			if want := test.full == nil || slices.Contains(test.full, i); want != (s.Cost == 1) || !want && s.Cost > 0.5 {
				t.Errorf("%+v: interval %d costs %v", test, i, s.Cost)
			}
		}
		if m := pipeline.Mean(steps); m.Inferences != test.looks {
			t.Errorf("%+v: %d looks", test, m.Inferences)
		}
	}
}

// TestKnown: a stream begins with the best of what is known, until a profile of its own is done.
func TestKnown(t *testing.T) {
	p := pipelinetest.NewTones(2, false)
	known := []pipeline.Tried{{Config: oneadapt.Config{2, 4}, Accuracy: 0.9, Cost: 0.6}, {Config: oneadapt.Config{1, 1}, Accuracy: 0.8, Cost: 0.3}, {Config: oneadapt.Config{1, 2}, Accuracy: 0.85, Cost: 0.5}}
	steps, err := pipeline.NewLab(p).Run(&pipeline.Profiled{Every: 10, Goal: pipeline.Goal{Budget: 0.5}, Search: pipeline.All(pipeline.Grid(p.Knobs(), 2)), Spare: 2, Known: known})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []oneadapt.Config{{4, 4}, {1, 2}, {1, 2}, {1, 2}, {0, 2}} {
		if !slices.Equal(steps[i].Config, want) {
			t.Errorf("interval %d is sent at %v, want %v", i, steps[i].Config, want)
		}
	}
}

// TestIndependent: of knobs whose parts add up, as many configurations as one knob has times the knobs are enough to find about the best of all.
func TestIndependent(t *testing.T) {
	p := pipelinetest.NewTones(4, false)
	goal := pipeline.Goal{Budget: 0.7}
	search := &pipeline.Independent{Knobs: p.Knobs(), Stride: []int{2, 2, 2, 1}, Top: 5, Again: 3, Goal: goal}
	if n := len(search.Candidates()); n != 1+2+2+2+4 {
		t.Errorf("there are %d candidates", n)
	}
	independent := run(t, p, &pipeline.Profiled{Every: 5, Search: search, Goal: goal})
	all := run(t, p, &pipeline.Profiled{Every: 5, Search: pipeline.All(pipeline.Grid(p.Knobs(), 2, 2, 2, 1)), Goal: goal})
	if most := 20 + 2*10 + 2*5; independent.Inferences > most || all.Inferences != 20+4*134 {
		t.Errorf("it takes %d looks, want %d at most; all configurations take %d", independent.Inferences, most, all.Inferences)
	}
	if independent.Accuracy < all.Accuracy-0.05 || independent.Cost > all.Cost+0.02 || all.Accuracy < 0.9 {
		t.Errorf("%+v, and all configurations have %+v", independent, all)
	}
}

func TestHeuristic(t *testing.T) {
	p := pipelinetest.NewTones(4, true)
	got := run(t, p, &pipeline.Heuristic{Next: func(last pipeline.Result) oneadapt.Config {
		c := oneadapt.Cheapest(p.Knobs())
		for i, v := range last.([]float64) {
			if v > 0.3 {
				c[i] = 4
			}
		}
		return c
	}})
	if got.Accuracy < 0.95 || got.Cost > 0.65 {
		t.Errorf("%+v", got)
	}
}

// TestAlignment: by a network that is a formula, OutputGrad is AccGrad but for what is of second order.
func TestAlignment(t *testing.T) {
	lab := pipeline.NewLab(pipelinetest.NewTones(6, true))
	got, err := lab.Alignment(0, oneadapt.Config{2, 3, 2, 2, 1, 3})
	if err != nil || !(got > 0.9 && got <= 1) {
		t.Errorf("the cosine is %v, %v", got, err)
	}
}
