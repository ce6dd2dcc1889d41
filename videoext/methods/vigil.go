package methods

import (
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// Vigil sends what a small network on the camera finds, and leaves frames out in which that is nothing (Zhang and others, "The Design and
// Implementation of a Wireless Video Surveillance System", MobiCom 2015, sections 3 and 4). What is around the things has the coarsest QP.
type Vigil struct {
	Common
	Score   float32 // of what the camera's network finds, at least
	Grow    float32 // by which its boxes are enlarged on each side
	High    videoext.Quality
	Outside int // QP of the rest
}

// DefaultVigil has the constants of the comparison in AccMPEG (Du and others, MLSys 2022).
func DefaultVigil() Vigil {
	return Vigil{Common: UsualCommon(), Score: 0.3, High: videoext.Quality{QP: 30, Scale: 1}, Outside: 51}
}

// Check says what is wrong with a configuration.
func (c *Vigil) Check() error {
	if err := c.Common.check("vigil"); err != nil {
		return err
	}
	if err := c.High.Check(); err != nil {
		return err
	}
	return checkQP("vigil", c.Outside)
}

// New is Vigil as a method. The configuration has been checked.
func (c Vigil) New() method.Method {
	setting := fmt.Sprintf("%d/%d at %g", c.High.QP, c.Outside, c.Score)
	return method.Method{Name: "vigil", Setting: setting, Frames: c.Frames, New: func() (method.Camera, method.Server) {
		return &vigilCamera{c: c, up: uplink{longest: c.MaxBacklog}}, &method.OneStream{How: method.Plain{}, Classes: c.Classes, Blank: true}
	}}
}

type vigilCamera struct {
	c  Vigil
	up uplink
	pending
}

// Step implements method.Camera.
func (v *vigilCamera) Step(_ time.Duration, event method.CameraEvent) []method.CameraAction {
	switch e := event.(type) {
	case method.Captured:
		v.addSegment(e)
		return []method.CameraAction{method.Detect{Segment: e.Segment, Frames: frameNumbers(e.Frames)}}
	case method.Found:
		w := v.findSegment(e.Segment)
		if w == nil {
			return nil
		}
		captured := w.Captured
		w.ready, w.send = true, func() []method.CameraAction { return v.sendFoundRegions(captured, e) }
		return v.flushReady()
	case method.Link:
		v.up.Link = e
	}
	return nil
}

func (v *vigilCamera) sendFoundRegions(e method.Captured, found method.Found) []method.CameraAction {
	settings := v.c.settingsOf(v.c.High, e)
	var frames []int
	var maps media.Maps
	for i, frame := range found.Frames {
		var regions []videoext.Region
		for _, d := range videoext.OfClasses(found.Findings[i].Detections, v.c.Classes) {
			if d.Score >= v.c.Score {
				regions = append(regions, d.Grow(v.c.Grow))
			}
		}
		if len(regions) > 0 {
			frames = append(frames, frame)
			maps = append(maps, videoext.Focus(regions, settings.Width, settings.Height, uint8(v.c.High.QP), uint8(v.c.Outside)))
		}
	}
	settings.Quality = maps
	return v.up.sendFrames(e, frames, settings)
}
