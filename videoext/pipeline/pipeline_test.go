package pipeline_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
	"github.com/prefillonly/prefillonly/videoext/pipeline/pipelinetest"
)

// tones is a pipeline whose network is a formula: numbers are sent with noise, the less the dearer, and count where they are above a half.
type tones struct {
	knobs   []oneadapt.Knob
	parts   bool
	numbers [][]float64 // of intervals
}

func newTones(knobs int, parts bool) *tones {
	p, r := &tones{parts: parts}, rand.New(rand.NewPCG(3, 4))
	for range knobs {
		p.knobs = append(p.knobs, oneadapt.Even("number", 5))
	}
	for range 20 {
		var numbers []float64
		for i := range knobs {
			numbers = append(numbers, float64(i%2)*(0.55+0.1*r.Float64()))
		}
		p.numbers = append(p.numbers, numbers)
	}
	return p
}

type sent struct {
	interval int
	numbers  []float64
	cost     float64
}

func (s *sent) Cost() float64 { return s.cost }

func (p *tones) Name() string           { return "tones" }
func (p *tones) Knobs() []oneadapt.Knob { return p.knobs }
func (p *tones) Parts() bool            { return p.parts }
func (p *tones) Intervals() int         { return len(p.numbers) }

func (p *tones) Prepare(interval int, c oneadapt.Config) (pipeline.Input, error) {
	s := &sent{interval: interval}
	for i, v := range p.numbers[interval] {
		place := p.knobs[i].Places[c[i]]
		s.numbers = append(s.numbers, v-0.2*(1-place)*(1-place))
		s.cost += 10 + 90*place
	}
	return s, nil
}

var utility = oneadapt.UsualUtility()

func (p *tones) Look(in pipeline.Input) (pipeline.Result, error) { return in.(*sent).numbers, nil }

func (p *tones) Slope(in pipeline.Input) (*oneadapt.Map, error) {
	s := in.(*sent)
	m := oneadapt.NewMap(len(s.numbers), 1)
	for i, v := range s.numbers {
		worth, slope := utility.Of(v)
		m.Utility += float32(worth)
		m.Values[i] = float32(slope)
	}
	return m, nil
}

func (p *tones) Changes(m *oneadapt.Map, against, in pipeline.Input) ([]float64, error) {
	changes, sum := make([]float64, len(p.knobs)), 0.0
	for i, v := range in.(*sent).numbers {
		changes[i] = float64(m.Values[i]) * math.Abs(v-against.(*sent).numbers[i])
		sum += changes[i]
	}
	if !p.parts {
		return []float64{sum}, nil
	}
	return changes, nil
}

// Accuracy is softer than counting: the part of numbers that count in both.
func (p *tones) Accuracy(truth, got pipeline.Result) float64 {
	both, all := 0.0, 0.0
	for i, v := range truth.([]float64) {
		a, _ := utility.Of(v)
		b, _ := utility.Of(got.([]float64)[i])
		both, all = both+min(a, b), all+max(a, b)
	}
	return both / all
}

func TestSuite(t *testing.T) {
	pipelinetest.Run(t, newTones(6, false))
	pipelinetest.Run(t, newTones(6, true))
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
		p := newTones(6, parts)
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
	if got := run(t, newTones(6, true), w); got.Accuracy < 0.9 || got.Cost > 0.8 || got.Slopes != 7 {
		t.Errorf("%+v", got)
	}
}

func TestProfiled(t *testing.T) {
	p := newTones(2, false)
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
	p := newTones(4, true)
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
	lab := pipeline.NewLab(newTones(6, true))
	got, err := lab.Alignment(0, oneadapt.Config{2, 3, 2, 2, 1, 3})
	if err != nil || !(got > 0.9 && got <= 1) {
		t.Errorf("the cosine is %v, %v", got, err)
	}
}
