// Package uniform streams all of a video in one quality: the baseline of H.264 at a fixed quantiser.
package uniform

import (
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// Config says in which quality.
type Config struct {
	Frames  int // of a segment
	QP      int // 0 to 51
	Scale   float64
	BFrames int
}

// New is the method. The configuration's values are in their ranges.
func New(c Config) method.Method {
	setting := fmt.Sprint(c.QP)
	if c.Scale != 1 {
		setting += fmt.Sprintf("x%.2g", c.Scale)
	}
	return method.Method{Name: "mpeg", Setting: setting, Frames: c.Frames, New: func() (method.Camera, method.Server) {
		return camera{c}, method.OneStream(method.Plain{}, nil)
	}}
}

// camera is the side of the frames.
type camera struct{ c Config }

// Step implements method.Camera.
func (c camera) Step(_ time.Duration, event method.CameraEvent) []method.CameraAction {
	e, ok := event.(method.Captured)
	if !ok {
		return nil
	}
	frames := make([]int, e.Frames)
	for i := range frames {
		frames[i] = i
	}
	width, height := videoext.Scaled(e.Width, e.Height, c.c.Scale)
	settings := media.Settings{Width: width, Height: height, Quality: media.QP(c.c.QP), BFrames: c.c.BFrames}
	return []method.CameraAction{
		method.Encode{Segment: e.Segment, Stream: method.A, Frames: frames, Settings: settings},
		method.Release{Segment: e.Segment},
	}
}
