package methods

import (
	"flag"

	"github.com/prefillonly/prefillonly/videoext/adapt"
	"github.com/prefillonly/prefillonly/videoext/method"
)

func oneAdaptSettings(s *flag.FlagSet, _ *Learned) func() (method.Method, error) {
	c := adapt.Usual()
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
