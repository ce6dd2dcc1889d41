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
	return &pipeline.OneAdapt{Options: oneadapt.Usual(), Rule: func(knobs []oneadapt.Knob) (oneadapt.Rule, error) {
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
		if got.Accuracy < 0.9 || got.Cost > 0.8 || got.Slopes != 20 || got.Looks != 20 || got.Feedback == 0 {
			t.Errorf("parts %v: %+v", parts, got)
		}
	}
}

// TestWithoutGradients: they are lost for a while, and nothing else is.
func TestWithoutGradients(t *testing.T) {
	w := ascent(oneadapt.Dearest, true)
	w.Lose = func(interval int) bool { return interval%3 > 0 }
	if got := run(t, pipelinetest.NewTones(6, true), w); got.Accuracy < 0.9 || got.Cost > 0.8 || got.Slopes != 7 {
		t.Errorf("%+v", got)
	}
}

func TestProfiled(t *testing.T) {
	p := pipelinetest.NewTones(2, false)
	grid := pipeline.Grid(p.Knobs(), 2)
	if len(grid) != 9 {
		t.Errorf("the grid has %d configurations", len(grid))
	}
	got := run(t, p, &pipeline.Profiled{Every: 10, Weight: 0.3, Configs: grid})
	if got.Looks != 20+2*9 || got.Accuracy < 0.85 || got.Cost >= 1 {
		t.Errorf("%+v", got)
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
