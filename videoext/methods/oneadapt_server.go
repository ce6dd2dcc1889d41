package methods

import (
	"time"

	"github.com/prefillonly/prefillonly/videoext/method"
)

// oneAdaptServer is the side of the network: it looks at all that arrives, and answers with the gradient of the last frame of a segment that it has seen. While one is
// under way no other is asked for, so that gradients that take long are fewer, and not late.
type oneAdaptServer struct {
	method.OneStream
	every   method.Segment // segments from one gradient to the next, at least
	busy    bool
	segment method.Segment // whose gradient was asked for last; negative: none
}

func newOneAdaptServer(c *OneAdapt) *oneAdaptServer {
	return &oneAdaptServer{every: method.Segment(c.Every), segment: -1, OneStream: method.OneStream{How: method.Plain{}, Classes: c.Classes}}
}

// Step implements method.Server.
func (s *oneAdaptServer) Step(now time.Duration, event method.ServerEvent) (do []method.ServerAction) {
	switch e := event.(type) {
	case method.Inferred:
		results := s.OneStream.Step(now, event)
		if len(results) > 0 && !s.busy && (s.segment < 0 || e.Segment >= s.segment+s.every) {
			s.busy, s.segment = true, e.Segment
			do = append(do, method.ComputeGradient{Segment: e.Segment, Frame: e.Frames[len(e.Frames)-1]}) // before its frames go
		}
		return append(do, results...)
	case method.GradientComputed:
		if !s.busy || e.Segment != s.segment {
			return nil
		}
		if s.busy = false; e.Gradient != nil {
			do = append(do, method.Answer{Segment: e.Segment, Content: method.Sensitive{Gradient: e.Gradient}})
		}
		return do
	}
	return s.OneStream.Step(now, event)
}
