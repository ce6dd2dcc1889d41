package methods

import (
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// ddsCamera is the side of the frames.
type ddsCamera struct {
	c        DDS
	control  ddsController
	link     method.Link
	recent   []recentSegment // segments that stream B may be asked of, at most Keep
	captured time.Duration
}

// recentSegment is a segment whose frames are kept.
type recentSegment struct {
	method.Captured
	high videoext.Quality
}

func newDDSCamera(c DDS) *ddsCamera {
	return &ddsCamera{c: c, control: ddsController{a: c.Adapt, qps: [2]int{c.Low.QP, c.High.QP}}}
}

// Step implements method.Camera.
func (c *ddsCamera) Step(now time.Duration, event method.CameraEvent) []method.CameraAction {
	switch e := event.(type) {
	case method.Captured:
		return c.onCaptured(now, e)
	case method.Answer:
		if w, ok := e.Content.(method.Wanted); ok {
			return c.onWanted(e.Segment, w.Regions)
		}
	case method.Encoded:
		c.control.recordSentBytes(e.Segment, e.Stream, e.Container)
	case method.Link:
		c.link = e
	}
	return nil
}

func (c *ddsCamera) onCaptured(now time.Duration, e method.Captured) (do []method.CameraAction) {
	low, high := c.c.Low, c.c.High
	qps := c.control.nextQPs(e.Segment, now-c.captured, c.link)
	low.QP, high.QP, c.captured = qps[method.A], qps[method.B], now
	if c.link.Jammed(c.c.MaxBacklog) {
		return []method.CameraAction{method.Skip{Segment: e.Segment, Stream: method.A, Of: e.Frames}, method.Release{Segment: e.Segment}}
	}
	for len(c.recent) >= c.c.Keep {
		do = append(do, c.skipStreamB(0)...)
	}
	c.recent = append(c.recent, recentSegment{e, high})
	frames := make([]int, e.Frames)
	for i := range frames {
		frames[i] = i
	}
	return append(do, method.Encode{Segment: e.Segment, Stream: method.A, Frames: frames, Settings: c.encoderSettings(low, e)})
}

// encoderSettings are those of a quality.
func (c *ddsCamera) encoderSettings(q videoext.Quality, e method.Captured) media.Settings {
	s := q.Settings(e.Width, e.Height)
	s.BFrames = c.c.BFrames
	return s
}

// shownRegions are the parts of a black frame that are not black.
func (c *ddsCamera) shownRegions(regions []videoext.Region, width, height int) []videoext.Region {
	if !c.c.Blocks {
		return regions
	}
	const side = media.MacroblockSize
	shown := make([]videoext.Region, len(regions))
	for i, r := range regions {
		p := r.Pixels(width, height)
		shown[i] = videoext.Region{
			X0: float32(p.Min.X/side*side) / float32(width), X1: float32((p.Max.X+side-1)/side*side) / float32(width),
			Y0: float32(p.Min.Y/side*side) / float32(height), Y1: float32((p.Max.Y+side-1)/side*side) / float32(height),
		}.Intersect(videoext.Whole)
	}
	return shown
}

// skipStreamB gives a recent segment up without stream B.
func (c *ddsCamera) skipStreamB(i int) []method.CameraAction {
	r := c.recent[i]
	c.recent = slices.Delete(c.recent, i, i+1)
	return []method.CameraAction{method.Skip{Segment: r.Segment, Stream: method.B, Of: r.Frames}, method.Release{Segment: r.Segment}}
}

func (c *ddsCamera) onWanted(segment method.Segment, regions [][]videoext.Region) []method.CameraAction {
	i := slices.IndexFunc(c.recent, func(r recentSegment) bool { return r.Segment == segment })
	if i < 0 {
		return nil
	}
	r := c.recent[i]
	e := method.Encode{Segment: segment, Stream: method.B, Settings: c.encoderSettings(r.high, r.Captured)}
	var maps media.Maps
	for frame, wanted := range regions {
		switch {
		case len(wanted) == 0 || frame >= r.Frames:
			continue
		case c.c.Outside > 0:
			maps = append(maps, videoext.Focus(wanted, e.Settings.Width, e.Settings.Height, uint8(r.high.QP), uint8(c.c.Outside)))
		default:
			e.Kept = append(e.Kept, c.shownRegions(wanted, e.Settings.Width, e.Settings.Height))
		}
		e.Frames = append(e.Frames, frame)
	}
	if maps != nil {
		e.Settings.Quality = maps
	}
	c.recent = slices.Delete(c.recent, i, i+1)
	release := method.Release{Segment: segment}
	if len(e.Frames) == 0 { // nothing is wanted, and the server knows it
		c.control.recordSentBytes(segment, method.B, 0)
		return []method.CameraAction{release}
	}
	return []method.CameraAction{e, release}
}
