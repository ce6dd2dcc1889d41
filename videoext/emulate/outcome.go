package emulate

import (
	"fmt"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
)

// buildOutcome is what all came to; there are final results of each segment.
func (r *run) buildOutcome() (*Outcome, error) {
	var delays time.Duration
	things := 0
	for i, s := range r.segments {
		r.out.Segments = append(r.out.Segments, s.bytes)
		if n := len(s.results); n == 0 || !s.results[n-1].Final {
			return nil, fmt.Errorf("%s %s: segment %d has no final results", r.method.Name, r.method.Setting, i)
		}
		final := s.results[len(s.results)-1]
		for frame, found := range final.Frames {
			captured := r.captureTime(s.first + frame)
			r.out.Found = append(r.out.Found, found)
			if found.Mask != nil {
				delays, things = delays+final.at-captured, things+1
			}
			for _, d := range found.Detections {
				delays, things = delays+s.firstSeenAt(frame, d)-captured, things+1
			}
		}
	}
	if things > 0 {
		r.out.Delay = delays / time.Duration(things)
	}
	return &r.out, nil
}

// sameThing is the overlap of boxes that are of one thing, when it was first found and in the end.
const sameThing = 0.5

// firstSeenAt is when results first had a thing.
func (s *segmentRun) firstSeenAt(frame int, d videoext.Detection) time.Duration {
	for _, r := range s.results {
		same := func(o videoext.Detection) bool { return o.Class == d.Class && o.IoU(d.Region) >= sameThing }
		if slices.ContainsFunc(r.Frames[frame].Detections, same) {
			return r.at
		}
	}
	return s.results[len(s.results)-1].at
}
