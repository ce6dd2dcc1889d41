package pipelinetest

import (
	"math"
	"math/rand/v2"

	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
)

// Tones is a pipeline whose network is a formula: numbers are sent less what a knob for each of them takes away, and count where they are above a half.
type Tones struct {
	knobs   []oneadapt.Knob
	parts   bool
	numbers [][]float64 // of intervals
}

// NewTones draws 20 intervals of numbers.
func NewTones(knobs int, parts bool) *Tones {
	p, r := &Tones{parts: parts}, rand.New(rand.NewPCG(3, 4))
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
	numbers []float64
	cost    float64
}

// Cost implements pipeline.Input.
func (s *sent) Cost() float64 { return s.cost }

// Name and those below implement pipeline.Pipeline.
func (p *Tones) Name() string           { return "tones" }
func (p *Tones) Knobs() []oneadapt.Knob { return p.knobs }
func (p *Tones) Parts() bool            { return p.parts }
func (p *Tones) Intervals() int         { return len(p.numbers) }

// Prepare implements pipeline.Pipeline.
func (p *Tones) Prepare(interval int, c oneadapt.Config) (pipeline.Input, error) {
	s := &sent{}
	for i, v := range p.numbers[interval] {
		place := p.knobs[i].Places[c[i]]
		s.numbers = append(s.numbers, v-0.2*(1-place)*(1-place))
		s.cost += 10 + 90*place
	}
	return s, nil
}

var utility = oneadapt.UsualUtility()

// Infer implements pipeline.Pipeline.
func (p *Tones) Infer(in pipeline.Input) (pipeline.Result, error) { return in.(*sent).numbers, nil }

// Gradient implements pipeline.Pipeline.
func (p *Tones) Gradient(in pipeline.Input) (*oneadapt.Map, error) {
	s := in.(*sent)
	m := oneadapt.NewMap(len(s.numbers), 1)
	for i, v := range s.numbers {
		worth, slope := utility.Evaluate(v)
		m.Utility += float32(worth)
		m.Values[i] = float32(slope)
	}
	return m, nil
}

// Changes implements pipeline.Pipeline.
func (p *Tones) Changes(m *oneadapt.Map, against, in pipeline.Input) ([]float64, error) {
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
func (p *Tones) Accuracy(truth, got pipeline.Result) float64 {
	both, all := 0.0, 0.0
	for i, v := range truth.([]float64) {
		a, _ := utility.Evaluate(v)
		b, _ := utility.Evaluate(got.([]float64)[i])
		both, all = both+min(a, b), all+max(a, b)
	}
	return both / all
}
