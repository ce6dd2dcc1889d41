package method

import (
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
)

// OneStream is the server's side of methods without a stream B: the network looks at all that arrives, and what it finds is final. A frame
// that was not sent, or is lost, has the results of the one before.
type OneStream struct {
	How     How
	Classes []int // that are looked for; nil: all
	Blank   bool  // frames that were not sent have nothing in them instead
	// Answer makes an answer of what was found; nil: there is none.
	Answer func(Inferred) Content

	pending []inferring
	last    videoext.Findings // of the last frame of segment at, none behind which has results
	at      Segment
}

// inferring is a segment that the network is asked about.
type inferring struct {
	segment Segment
	of      int
}

// Step implements Server.
func (s *OneStream) Step(_ time.Duration, event ServerEvent) []ServerAction {
	switch e := event.(type) {
	case Arrived:
		if e.Stream == A {
			s.pending = append(s.pending, inferring{e.Segment, e.Of})
			return []ServerAction{Infer{Segment: e.Segment, Stream: A, Frames: e.Frames, How: s.How}}
		}
	case Inferred:
		return s.handleInferred(e)
	case Skip:
		return s.handleMissing(e.Segment, e.Stream, e.Of)
	case Failed:
		return s.handleMissing(e.Segment, e.Stream, e.Of)
	case Ended:
		var do []ServerAction
		for len(s.pending) > 0 {
			do = append(do, s.finishSegment(s.pending[0].segment, nil, nil)...)
		}
		return do
	}
	return nil
}

func (s *OneStream) handleInferred(e Inferred) []ServerAction {
	do := s.finishSegment(e.Segment, e.Frames, e.Findings)
	if do == nil || s.Answer == nil {
		return do
	}
	if content := s.Answer(e); content != nil {
		do = append(do, Answer{Segment: e.Segment, Content: content})
	}
	return do
}

func (s *OneStream) handleMissing(segment Segment, stream Stream, of int) []ServerAction {
	if stream != A {
		return nil
	}
	if !slices.ContainsFunc(s.pending, func(p inferring) bool { return p.segment == segment }) {
		s.pending = append(s.pending, inferring{segment, of})
	}
	return s.finishSegment(segment, nil, nil)
}

// finishSegment gives a segment's results.
func (s *OneStream) finishSegment(segment Segment, frames []int, found []videoext.Findings) []ServerAction {
	i := slices.IndexFunc(s.pending, func(p inferring) bool { return p.segment == segment })
	if i < 0 {
		return nil
	}
	all, last := make([]videoext.Findings, s.pending[i].of), videoext.Findings{}
	if segment >= s.at {
		last = s.last
	}
	for frame := range all {
		if k := slices.Index(frames, frame); k >= 0 {
			last = videoext.Findings{Detections: videoext.OfClasses(found[k].Detections, s.Classes), Mask: found[k].Mask}
		} else if s.Blank {
			continue
		}
		all[frame] = last
	}
	if segment >= s.at {
		s.last, s.at = last, segment
	}
	s.pending = slices.Delete(s.pending, i, i+1)
	return []ServerAction{Results{Segment: segment, Frames: all, Final: true}}
}
