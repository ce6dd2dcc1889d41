package methods

import (
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

// OneAdaptSettings are a configuration in a few words.
type OneAdaptSettings struct {
	Frames  int
	Every   int // a gradient for each so many segments
	Classes []int
	Knobs   string  // blocks, codec or filter
	Preset  string  // paper: plain gradient ascent; repo: the published code's way for these knobs; tuned: ascent at elastic rates
	Rate    float64 // alpha
	Weight  float64 // lambda, of what the dearest configuration costs
	Gain    float64 // elements that a measured change of one is worth
	Share   float64 // of macroblocks in the finer quality, where the preset is repo and the knobs are blocks
	Start   string  // dearest or cheapest configuration
	QP      int     // of frames that a filter lets through
}

// UsualOneAdapt are the settings of the paper.
func UsualOneAdapt() OneAdaptSettings {
	return OneAdaptSettings{Frames: 10, Every: 1, Knobs: "blocks", Preset: "paper", Rate: 0.5, Weight: 1, Gain: 1, Share: 0.1, Start: "dearest", QP: 24}
}

// Config is what settings mean. The constants of presets are the published code's (github.com/KuntaiDu/OneAdapt).
func (s OneAdaptSettings) Config() (OneAdapt, error) {
	c := OneAdapt{Frames: s.Frames, Every: s.Every, Classes: s.Classes, MaxBacklog: 2 * time.Second, Options: oneadapt.Usual()}
	switch s.Knobs {
	case "blocks":
		c.Knobs = &BlockKnobs{QPs: []int{36, 34, 30, 28, 26, 24}}
		if s.Preset == "repo" {
			c.Knobs = &BlockKnobs{QPs: []int{36, 24}}
		}
	case "codec":
		c.Knobs = &CodecKnobs{QPs: []int{50, 46, 42, 38, 34, 30, 28, 26, 24, 22, 20}, Scales: []float64{1. / 3, 0.4, 0.4667, 0.5333, 0.6667, 0.8333, 1}, Biases: []int{100, 50, 0, -50, -100}}
	case "filter":
		c.Knobs = &FilterKnobs{Biases: []float64{3, 0, -3}, Quality: videoext.Quality{QP: s.QP, Scale: 1}}
	default:
		return c, fmt.Errorf("oneadapt: knobs %q; there are blocks, codec and filter", s.Knobs)
	}
	if !slices.Contains([]string{"paper", "repo", "tuned"}, s.Preset) {
		return c, fmt.Errorf("oneadapt: preset %q; there are paper, repo and tuned", s.Preset)
	}
	if !slices.Contains([]string{"dearest", "cheapest"}, s.Start) {
		return c, fmt.Errorf("oneadapt: it starts at the dearest or the cheapest configuration, not %q", s.Start)
	}
	c.Ahead = s.Preset != "paper"
	c.Rule = s.newRule
	return c, c.Check()
}

// newRule begins with a stream's knobs.
func (s OneAdaptSettings) newRule(knobs []oneadapt.Knob) (oneadapt.Rule, error) {
	a := oneadapt.Ascent{Rate: s.Rate, Weight: s.Weight, Gain: s.Gain, Separable: s.Knobs == "blocks", Elastic: s.Preset == "tuned"}
	start := oneadapt.Dearest(knobs)
	if s.Start == "cheapest" {
		start = oneadapt.Cheapest(knobs)
	}
	if s.Preset == "repo" {
		switch s.Knobs {
		case "blocks":
			return oneadapt.NewSplit(oneadapt.Split{Share: s.Share, From: start}, knobs)
		case "filter":
			return oneadapt.NewBest(oneadapt.Best{Weight: s.Weight, Gain: s.Gain}, knobs)
		}
		a.Moments, a.Above = &oneadapt.Adam{First: 0.5, Second: 0.5}, true
	}
	return oneadapt.NewAscent(a, knobs, start)
}

func oneAdaptSettings(s *flag.FlagSet, _ *Learned) func() (method.Method, error) {
	c := UsualOneAdapt()
	s.IntVar(&c.Frames, "frames", c.Frames, "of a segment")
	s.IntVar(&c.Every, "every", c.Every, "segments for each of which the server has one gradient")
	s.Func("classes", "numbers of the classes that are looked for, joined by +", classListParser(&c.Classes))
	s.StringVar(&c.Knobs, "knobs", c.Knobs, "blocks (a quantiser for each macroblock), codec (quantiser, resolution and B-frames) or filter (which frames are sent)")
	s.StringVar(&c.Preset, "preset", c.Preset, "paper (gradient ascent), repo (the published code's way for these knobs) or tuned (ascent at rates of each knob's own)")
	s.Float64Var(&c.Rate, "alpha", c.Rate, "how far knobs move")
	s.Float64Var(&c.Weight, "lambda", c.Weight, "accuracy, from 0 to 1, that the resource of the dearest setting is worth")
	s.Float64Var(&c.Gain, "gain", c.Gain, "elements that a measured change of one is worth")
	s.Float64Var(&c.Share, "share", c.Share, "of macroblocks in the finer quality, with preset=repo and knobs=blocks")
	s.StringVar(&c.Start, "start", c.Start, "with the dearest or the cheapest settings")
	s.IntVar(&c.QP, "qp", c.QP, "of frames that a filter lets through")
	return func() (method.Method, error) {
		config, err := c.Config()
		if err != nil {
			return method.Method{}, err
		}
		return config.New(), nil
	}
}
