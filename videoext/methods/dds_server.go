package methods

import (
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// ddsServer is the side of the network.
type ddsServer struct {
	c       DDS
	pending []*openSegment    // in order; at most Keep and two more
	last    videoext.Findings // of the last frame of segment at, none behind which has results
	at      method.Segment
}

// openSegment is a segment without its final results.
type openSegment struct {
	segment method.Segment
	of      int
	frames  []int
	low     []videoext.Findings // of frames; nil: not yet
	regions [][]videoext.Region // that were asked for, of each frame of the segment; nil: none were
	until   time.Duration       // for stream B to be here; 0: for ever
	skipped bool                // stream B does not come
}

func newDDSServer(c DDS) *ddsServer { return &ddsServer{c: c} }

// Step implements method.Server.
func (s *ddsServer) Step(now time.Duration, event method.ServerEvent) (do []method.ServerAction) {
	switch e := event.(type) {
	case method.Arrived:
		do = s.addArrived(e)
	case method.Inferred:
		do = s.handleInferred(now, e)
	case method.Skip:
		do = s.handleMissing(e.Segment, e.Stream, e.Of)
	case method.Failed:
		do = s.handleMissing(e.Segment, e.Stream, e.Of)
	case method.Ended:
		for len(s.pending) > 0 {
			do = append(do, s.finishSegment(s.pending[0], nil)...)
		}
	}
	return append(do, s.expireSegments(now)...)
}

func (s *ddsServer) findPending(segment method.Segment) *openSegment {
	for _, p := range s.pending {
		if p.segment == segment {
			return p
		}
	}
	return nil
}

func (s *ddsServer) addArrived(e method.Arrived) []method.ServerAction {
	if e.Stream == method.A {
		s.pending = append(s.pending, &openSegment{segment: e.Segment, of: e.Of, frames: e.Frames})
		return []method.ServerAction{method.Infer{Segment: e.Segment, Stream: method.A, Frames: e.Frames, How: method.Plain{}}}
	}
	p := s.findPending(e.Segment)
	if p == nil || p.regions == nil {
		return nil
	}
	p.until = 0
	pasted := make([][]videoext.Region, len(e.Frames))
	for i, frame := range e.Frames {
		pasted[i] = p.regions[frame]
	}
	return []method.ServerAction{method.Infer{Segment: e.Segment, Stream: method.B, Frames: e.Frames, How: method.Pasted{Regions: pasted}}}
}

func (s *ddsServer) handleInferred(now time.Duration, e method.Inferred) []method.ServerAction {
	p := s.findPending(e.Segment)
	switch {
	case p == nil:
		return nil
	case e.Stream == method.B:
		return s.finishSegment(p, &e)
	}
	p.low = e.Findings
	regions, asked := make([][]videoext.Region, p.of), false
	for i, frame := range p.frames {
		_, regions[frame] = s.c.splitDetections(&p.low[i])
		asked = asked || len(regions[frame]) > 0
	}
	switch {
	case p.skipped:
		return s.finishSegment(p, nil)
	case !asked:
		return append(s.finishSegment(p, nil), method.Answer{Segment: p.segment, Content: method.Wanted{}})
	}
	regions = holdRegions(regions, s.c.Hold)
	p.regions, p.until = regions, now+s.c.Patience
	return []method.ServerAction{
		method.Answer{Segment: p.segment, Content: method.Wanted{Regions: regions}},
		method.Results{Segment: p.segment, Frames: s.segmentFindings(p, nil)},
	}
}

// handleMissing is called when a stream of a segment does not come.
func (s *ddsServer) handleMissing(segment method.Segment, stream method.Stream, of int) []method.ServerAction {
	p := s.findPending(segment)
	switch {
	case p == nil && stream == method.A:
		return s.finishSegment(&openSegment{segment: segment, of: of}, nil)
	case p == nil:
		return nil
	case stream == method.A || p.low != nil:
		return s.finishSegment(p, nil)
	}
	p.skipped = true
	return nil
}

// finishSegment gives a segment's final results, of stream B too if that was looked at.
func (s *ddsServer) finishSegment(p *openSegment, high *method.Inferred) []method.ServerAction {
	frames := s.segmentFindings(p, high)
	if p.segment >= s.at {
		s.last, s.at = frames[len(frames)-1], p.segment
	}
	s.pending = slices.DeleteFunc(s.pending, func(q *openSegment) bool { return q == p })
	return []method.ServerAction{method.Results{Segment: p.segment, Frames: frames, Final: true}}
}

// segmentFindings are those of all frames; one that was not sent, or of which nothing is known, has those of the one before.
func (s *ddsServer) segmentFindings(p *openSegment, high *method.Inferred) []videoext.Findings {
	all, last := make([]videoext.Findings, p.of), videoext.Findings{}
	if p.segment >= s.at {
		last = s.last
	}
	for frame := range all {
		if i := slices.Index(p.frames, frame); i >= 0 && p.low != nil {
			last = s.c.lowFindings(&p.low[i])
			if high != nil {
				if k := slices.Index(high.Frames, frame); k >= 0 {
					last = s.c.combineFindings(&p.low[i], &high.Findings[k])
				}
			}
		}
		all[frame] = last
	}
	return all
}

// expireSegments finishes segments whose stream B is late, and the oldest if there are too many, and says when to look again.
func (s *ddsServer) expireSegments(now time.Duration) (do []method.ServerAction) {
	for i := 0; i < len(s.pending); {
		p := s.pending[i]
		late := p.until > 0 && now >= p.until
		crowded := len(s.pending) > s.c.Keep+2 && p.until > 0
		if !late && !crowded {
			i++
			continue
		}
		do = append(do, s.finishSegment(p, nil)...)
	}
	next := time.Duration(0)
	for _, p := range s.pending {
		if p.until > 0 && (next == 0 || p.until < next) {
			next = p.until
		}
	}
	if next > 0 {
		do = append(do, method.Wake{At: next})
	}
	return do
}
