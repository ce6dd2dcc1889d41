package baselines

import (
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// viewer is the server's side of methods that send each segment once: it infers what arrives.
type viewer struct {
	how     method.How
	classes []int
	// blank says that frames that were not sent have nothing in them. Else they have what the last one had.
	blank bool
	// answer makes an answer of what was found; nil: there is none.
	answer func(method.Inferred) method.Content

	inferring []method.Arrived
	last      videoext.Findings
}

// Step implements method.Server.
func (v *viewer) Step(_ time.Duration, event method.ServerEvent) []method.ServerAction {
	switch e := event.(type) {
	case method.Arrived:
		if e.Stream == method.A {
			v.inferring = append(v.inferring, e)
			return []method.ServerAction{method.Infer{Segment: e.Segment, Stream: method.A, Frames: e.Frames, How: v.how}}
		}
	case method.Inferred:
		return v.inferred(e)
	case method.Skip:
		return v.missing(e.Segment, e.Stream, e.Of)
	case method.Failed:
		return v.missing(e.Segment, e.Stream, e.Of)
	case method.Ended:
		return v.ended()
	}
	return nil
}

// take is the segment that is being inferred, which it is no more.
func (v *viewer) take(segment method.Segment) (a method.Arrived, ok bool) {
	i := slices.IndexFunc(v.inferring, func(a method.Arrived) bool { return a.Segment == segment })
	if i < 0 {
		return a, false
	}
	a = v.inferring[i]
	v.inferring = slices.Delete(v.inferring, i, i+1)
	return a, true
}

func (v *viewer) inferred(e method.Inferred) []method.ServerAction {
	a, ok := v.take(e.Segment)
	if !ok {
		return nil
	}
	frames := make([]videoext.Findings, a.Of)
	next := 0
	for i := range frames {
		if next < len(e.Frames) && e.Frames[next] == i {
			f := &e.Findings[next]
			v.last = videoext.Findings{Detections: wanted(f.Detections, v.classes), Mask: f.Mask}
			frames[i] = v.last
			next++
		} else if !v.blank {
			frames[i] = v.last
		}
	}
	do := []method.ServerAction{method.Results{Segment: e.Segment, Frames: frames, Final: true}}
	if v.answer != nil {
		do = append(do, method.Answer{Segment: e.Segment, Content: v.answer(e)})
	}
	return do
}

// missing gives the results of a segment of which nothing can be seen.
func (v *viewer) missing(segment method.Segment, stream method.Stream, of int) []method.ServerAction {
	if stream != method.A {
		return nil
	}
	v.take(segment)
	frames := make([]videoext.Findings, of)
	for i := range frames {
		if !v.blank {
			frames[i] = v.last
		}
	}
	return []method.ServerAction{method.Results{Segment: segment, Frames: frames, Final: true}}
}

// ended gives the results of all segments that are still being inferred.
func (v *viewer) ended() (do []method.ServerAction) {
	for len(v.inferring) > 0 {
		a := v.inferring[0]
		do = append(do, v.missing(a.Segment, method.A, a.Of)...)
	}
	return do
}
