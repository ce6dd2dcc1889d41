package methods

import (
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// Plain streams all frames in one quality.
type Plain struct {
	Common
	videoext.Quality
}

// Check says what is wrong with a configuration.
func (c *Plain) Check() error {
	if err := c.Common.check("mpeg"); err != nil {
		return err
	}
	return c.Quality.Check()
}

// New is plain H.264 as a method. The configuration has been checked.
func (c Plain) New() method.Method {
	return method.Method{Name: "mpeg", Setting: c.Quality.String(), Frames: c.Frames, New: func() (method.Camera, method.Server) {
		return newPlainCamera(c), &method.OneStream{How: method.Plain{}, Classes: c.Classes}
	}}
}

// CloudSeg streams in low resolution, which a network on the server doubles before the other one looks at it (Wang and others,
// "Bridging the Edge-Cloud Barrier for Real-time Advanced Vision Analytics", HotCloud 2019, section 3).
type CloudSeg struct {
	Plain
	Factor int // by which the server's network enlarges
}

// DefaultCloudSeg halves the frame each way, as the paper has it, and has the finer QP that leaves room for.
func DefaultCloudSeg() CloudSeg {
	return CloudSeg{Plain: Plain{Common: UsualCommon(), Quality: videoext.Quality{QP: 28, Scale: 0.5}}, Factor: 2}
}

// Check says what is wrong with a configuration.
func (c *CloudSeg) Check() error {
	if c.Factor < 2 || c.Factor > 4 {
		return fmt.Errorf("cloudseg: a factor of %d; there are networks for 2, 3 and 4", c.Factor)
	}
	return c.Plain.Check()
}

// New is CloudSeg as a method. The configuration has been checked.
func (c CloudSeg) New() method.Method {
	return method.Method{Name: "cloudseg", Setting: c.Quality.String(), Frames: c.Frames, New: func() (method.Camera, method.Server) {
		return newPlainCamera(c.Plain), &method.OneStream{How: method.SuperResolved{Factor: c.Factor}, Classes: c.Classes}
	}}
}

// plainCamera sends all frames of each segment alike.
type plainCamera struct {
	c  Plain
	up uplink
}

func newPlainCamera(c Plain) *plainCamera {
	return &plainCamera{c: c, up: uplink{longest: c.MaxBacklog}}
}

// Step implements method.Camera.
func (p *plainCamera) Step(_ time.Duration, event method.CameraEvent) []method.CameraAction {
	switch e := event.(type) {
	case method.Captured:
		return p.up.sendFrames(e, frameNumbers(e.Frames), p.c.settingsOf(p.c.Quality, e))
	case method.Link:
		p.up.Link = e
	}
	return nil
}
