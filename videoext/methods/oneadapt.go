package methods

import (
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

// OneAdapt has the camera set the knobs of its encoder or of its filter by gradients of the server's network (Du and others, "OneAdapt",
// SoCC 2023; pipelines a, b and c).
type OneAdapt struct {
	Frames     int   // of a segment, which is an interval of adaptation
	Classes    []int // that are looked for; nil: all
	Every      int   // a gradient for each so many segments
	MaxBacklog time.Duration
	Knobs      Knobs
	oneadapt.Options
	// Rule begins with a stream's knobs.
	Rule func(knobs []oneadapt.Knob) (oneadapt.Rule, error)
}

// Check says what is wrong with a configuration.
func (c *OneAdapt) Check() error {
	switch {
	case c.Frames < 1:
		return fmt.Errorf("oneadapt: segments of %d frames", c.Frames)
	case c.Every < 1 || c.Every > c.Fresh:
		return fmt.Errorf("oneadapt: a gradient every %d segments, and each is used for %d; 1 to %d are right", c.Every, c.Fresh, c.Fresh)
	case c.MaxBacklog <= 0:
		return fmt.Errorf("oneadapt: the longest backlog, %v, is to be above 0", c.MaxBacklog)
	}
	if err := c.Knobs.check(); err != nil {
		return err
	}
	_, err := c.newAdapter(leastSide, leastSide)
	return err
}

// leastSide is that of the least frame that is encoded.
const leastSide = 16

func (c *OneAdapt) newAdapter(width, height int) (*oneadapt.Adapter, error) {
	knobs := c.Knobs.Of(width, height)
	rule, err := c.Rule(knobs)
	if err != nil {
		return nil, err
	}
	return oneadapt.New(rule, knobs, c.Options)
}

// gradientInferences is about what a gradient takes: a pass forward and one back. YOLOX-nano at 960x544 takes 2.7 on an idle processor, and up to 3.7 on a busy one.
const gradientInferences = 2.7

// New is OneAdapt as a method. The configuration has been checked.
func (c OneAdapt) New() method.Method {
	inferences := 1 + gradientInferences/float64(c.Frames*c.Every)
	return method.Method{Name: "oneadapt", Setting: c.Knobs.knobsName(), Frames: c.Frames, Gradients: true, Inferences: inferences, New: func() (method.Camera, method.Server) {
		return &oneAdaptCamera{c: c, segments: map[method.Segment]*Segment{}}, newOneAdaptServer(&c)
	}}
}
