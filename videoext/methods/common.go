package methods

import (
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// Common is what all of them have.
type Common struct {
	Frames  int   // of a segment
	Classes []int // that are looked for; nil: all
	BFrames int
	// MaxBacklog is how long what waits to be sent may take; a segment that is captured while it is longer is left out.
	MaxBacklog time.Duration
}

// settingsOf are those of a segment in a quality.
func (c *Common) settingsOf(q videoext.Quality, e method.Captured) media.Settings {
	s := q.Settings(e.Width, e.Height)
	s.BFrames = c.BFrames
	return s
}

// UsualCommon are the segments of a second at 10 frames/s that the published comparisons have.
func UsualCommon() Common { return Common{Frames: 10, MaxBacklog: 2 * time.Second} }

func (c *Common) check(name string) error {
	switch {
	case c.Frames < 1:
		return fmt.Errorf("%s: segments of %d frames", name, c.Frames)
	case c.BFrames < 0 || c.BFrames > 16:
		return fmt.Errorf("%s: %d B-frames are to be 0 to 16", name, c.BFrames)
	case c.MaxBacklog <= 0:
		return fmt.Errorf("%s: the longest backlog, %v, is to be above 0", name, c.MaxBacklog)
	}
	return nil
}

func checkQP(name string, qps ...int) error {
	for _, qp := range qps {
		if qp < 0 || qp > media.MaxQP {
			return fmt.Errorf("%s: QP %d is to be 0 to %d", name, qp, media.MaxQP)
		}
	}
	return nil
}

// uplink is what a camera's side knows of its link.
type uplink struct {
	method.Link
	longest time.Duration
}

// frameNumbers numbers the frames of a segment.
func frameNumbers(n int) []int {
	frames := make([]int, n)
	for i := range frames {
		frames[i] = i
	}
	return frames
}

// sendFrames sends frames of a segment, in their own size, and needs them no more. No frames, or a jammed link: it sends nothing.
func (u *uplink) sendFrames(e method.Captured, frames []int, settings media.Settings) []method.CameraAction {
	release := method.Release{Segment: e.Segment}
	if len(frames) == 0 || u.Jammed(u.longest) {
		return []method.CameraAction{method.Skip{Segment: e.Segment, Stream: method.A, Of: e.Frames}, release}
	}
	return []method.CameraAction{method.Encode{Segment: e.Segment, Stream: method.A, Frames: frames, Settings: settings}, release}
}

// pending are segments that wait for what the camera finds out about them. They are sent in their order.
type pending struct{ waiting []waiting }

type waiting struct {
	method.Captured
	ready bool
	send  func() []method.CameraAction // once it is ready
}

func (p *pending) addSegment(e method.Captured) { p.waiting = append(p.waiting, waiting{Captured: e}) }

// findSegment is nil if nothing is waited for of a segment.
func (p *pending) findSegment(segment method.Segment) *waiting {
	for i := range p.waiting {
		if w := &p.waiting[i]; w.Segment == segment && !w.ready {
			return w
		}
	}
	return nil
}

// flushReady sends what is ready and has nothing before it.
func (p *pending) flushReady() (do []method.CameraAction) {
	for len(p.waiting) > 0 && p.waiting[0].ready {
		do = append(do, p.waiting[0].send()...)
		p.waiting = p.waiting[1:]
	}
	if len(p.waiting) == 0 {
		p.waiting = nil
	}
	return do
}
