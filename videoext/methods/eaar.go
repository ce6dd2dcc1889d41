package methods

import (
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// EAAR encodes where the server's network has just seen something that may be a thing in high quality, and the rest in low (Liu and others,
// "Edge Assisted Real-time Object Detection for Mobile Augmented Reality", MobiCom 2019, section 4). The paper has regions for each frame out
// of the frame before; here they are of the last frame that the camera was told of, enlarged for what moves meanwhile.
type EAAR struct {
	Common
	Objectness float32 // of regions, at least
	Largest    float32 // area of a region at most, as a part of the frame
	Grow       float32 // by which regions are enlarged on each side
	High       videoext.Quality
	Low        int // QP of the rest
}

// DefaultEAAR has the constants of the comparison in AccMPEG (Du and others, MLSys 2022).
func DefaultEAAR() EAAR {
	return EAAR{Common: UsualCommon(), Objectness: 0.7, Largest: 0.1, Grow: 0.25, High: videoext.Quality{QP: 30, Scale: 1}, Low: 36}
}

// Check says what is wrong with a configuration.
func (c *EAAR) Check() error {
	if err := c.Common.check("eaar"); err != nil {
		return err
	}
	if err := c.High.Check(); err != nil {
		return err
	}
	return checkQP("eaar", c.Low)
}

// New is EAAR as a method. The configuration has been checked.
func (c EAAR) New() method.Method {
	setting := fmt.Sprintf("%d/%d at %g", c.Low, c.High.QP, c.Objectness)
	return method.Method{Name: "eaar", Setting: setting, Frames: c.Frames, New: func() (method.Camera, method.Server) {
		return &eaarCamera{c: c, up: uplink{longest: c.MaxBacklog}, told: -1},
			&method.OneStream{How: method.Plain{}, Classes: c.Classes, Answer: c.wantedRegions}
	}}
}

// wantedRegions are those of the last frame in which something was looked for.
func (c EAAR) wantedRegions(e method.Inferred) method.Content {
	f := &e.Findings[len(e.Findings)-1]
	var regions []videoext.Region
	for _, p := range f.Proposals {
		if a := p.Area(); p.Objectness >= c.Objectness && a > 0 && a <= c.Largest {
			regions = append(regions, p.Grow(c.Grow))
		}
	}
	return method.Wanted{Regions: [][]videoext.Region{regions}}
}

type eaarCamera struct {
	c       EAAR
	up      uplink
	told    method.Segment // of the newest answer; -1: none
	newest  method.Segment // that was captured
	regions []videoext.Region
	begun   bool
}

// Step implements method.Camera.
func (c *eaarCamera) Step(_ time.Duration, event method.CameraEvent) []method.CameraAction {
	switch e := event.(type) {
	case method.Captured:
		c.begun, c.newest = true, e.Segment
		return c.up.sendFrames(e, frameNumbers(e.Frames), c.segmentSettings(e))
	case method.Answer:
		if w, ok := e.Content.(method.Wanted); ok && c.begun && e.Segment <= c.newest && e.Segment > c.told && len(w.Regions) > 0 {
			c.told, c.regions = e.Segment, w.Regions[0]
		}
	case method.Link:
		c.up.Link = e
	}
	return nil
}

// segmentSettings are those of the next segment: in high quality until the camera is told of regions.
func (c *eaarCamera) segmentSettings(e method.Captured) media.Settings {
	s := c.c.settingsOf(c.c.High, e)
	if c.told >= 0 {
		s.Quality = media.Maps{videoext.Focus(c.regions, s.Width, s.Height, uint8(c.c.High.QP), uint8(c.c.Low))}
	}
	return s
}
