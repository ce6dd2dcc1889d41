package clips

import (
	"fmt"

	"github.com/prefillonly/prefillonly/videoext/emulate"
	"github.com/prefillonly/prefillonly/videoext/link"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
	"time"
)

// Streamed is a method to stream video as a way to send intervals, each of which is one of its segments: on a link that carries all at once, and with work that takes no time.
type Streamed struct {
	Pipeline *Pipeline
	Method   method.Method

	from    int // the first interval
	outcome *emulate.Outcome
}

// Serve implements pipeline.Way.
func (s *Streamed) Serve(interval int, a *pipeline.Account) (pipeline.Result, error) {
	if s.outcome == nil {
		s.from = interval
		if err := s.runMethod(); err != nil {
			return nil, err
		}
	}
	n, o, frames := interval-s.from, s.outcome, s.Pipeline.o.Frames
	intervals := len(o.Segments)
	a.Send(&input{cost: float64(o.Segments[n])}, nil)
	a.Inferences += (o.Inferences*(n+1)/intervals - o.Inferences*n/intervals + frames/2) / frames
	a.Prepared += o.Encodes*(n+1)/intervals - o.Encodes*n/intervals
	return o.Found[n*frames:][:frames], nil
}

// runMethod runs the method on all intervals from the first one on.
func (s *Streamed) runMethod() (err error) {
	p := s.Pipeline
	if s.Method.Frames != p.o.Frames {
		return fmt.Errorf("%s: segments of %d frames, and intervals of %d", s.Method.Name, s.Method.Frames, p.o.Frames)
	}
	clip, tools := *p.o.Clip, p.o.Tools
	clip.Frames = clip.Frames[s.from*p.o.Frames : p.Intervals()*p.o.Frames]
	tools.Codec, tools.Clock = instant{tools.Codec}, func() time.Duration { return 0 }
	s.outcome, err = emulate.NewLab(tools, &clip).Run(s.Method, link.New(link.Unlimited(), 0, 0))
	return err
}

// instant encodes in no time.
type instant struct{ emulate.Codec }

func (c instant) Encode(frames []*media.Frame, s media.Settings) (emulate.Coded, error) {
	coded, err := c.Codec.Encode(frames, s)
	coded.Took = 0
	return coded, err
}
