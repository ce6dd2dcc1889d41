package methods

import (
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// DDS streams driven by the server's network (Du and others, "Server-Driven Video Streaming for Deep Learning Inference", SIGCOMM 2020): all
// frames in low quality, and what the network is not sure of once more in high quality. Detectors' scores are from 0 to 1, areas are parts of the frame.
type DDS struct {
	Frames    int // of a segment
	Low, High videoext.Quality
	BFrames   int
	Classes   []int // that are looked for; nil: all

	DDSFeedback
	// Outside is the QP of what is not asked for in stream B; 0: it is black, as in the published code.
	Outside int
	// Blocks shows all of the macroblocks that a region is in; what of them is beside the region is not used. A macroblock that is black in part takes
	// more bytes, and what is in it is worse. The published code shows regions alone.
	Blocks bool

	// Duplicate is the IoU above which a detection of stream A is the same as one of stream B, which replaces it.
	Duplicate float32
	// JoinScore and JoinIoU join the results: detections of at least that score which overlap by more than JoinIoU become one, around both.
	// The published code does so; JoinIoU 0 leaves it out.
	JoinScore, JoinIoU float32

	// Adapt chooses the two QPs by the link's bandwidth, instead of those of Low and High; nil: it does not.
	Adapt *DDSAdapt

	Keep     int           // segments whose frames the camera keeps for stream B
	Patience time.Duration // that the server has for stream B
	// MaxBacklog is how long what waits to be sent may take; a segment that is captured while it is longer is left out.
	MaxBacklog time.Duration
}

// DDSFeedback says which parts of a frame are asked for in high quality.
type DDSFeedback struct {
	Objectness float32 // of proposals, at least
	Sure       float32 // score above which a detection of stream A is a result, and not asked for again
	Weak       bool    // detections that are not sure are asked for too
	SameIoU    float32 // a region that overlaps a sure detection by more is not asked for
	Largest    float32 // area of a region at most
	Enlarge    float32 // regions grow by this part of their size on each side
	// Hold is for how many frames before and after its own a region is asked for: what is there in one frame alone cannot be predicted
	// from others, and costs more. The published code has 0.
	Hold   int
	Margin float32 // of masks: pixels whose margin is less are asked for
	Share  float32 // of a macroblock's pixels that are unsure, for it to be asked for
}

// PaperDDS has the constants of the paper's sections 3.1.2 and 3.2.1 (of the dissertation: chapter 3).
func PaperDDS() DDS {
	return DDS{
		Frames: 15, Low: videoext.Quality{QP: 36, Scale: 0.8}, High: videoext.Quality{QP: 26, Scale: 0.8},
		DDSFeedback: DDSFeedback{Objectness: 0.5, Sure: 0.5, SameIoU: 0.3, Largest: 0.04, Margin: 0.3, Share: 0.25},
		Outside:     51, Duplicate: 0.3,
		Keep: 2, Patience: 2 * time.Second, MaxBacklog: 2 * time.Second,
	}
}

// RepoDDS has the constants of the published code (github.com/KuntaiDu/dds, workspace/configuration.yml).
func RepoDDS() DDS {
	c := PaperDDS()
	c.Weak, c.Largest, c.Outside = true, 0.01, 0
	c.JoinScore, c.JoinIoU = 0.3, 0.3
	return c
}

// TunedDDS has the constants that were best on one half of a dashcam clip, for a detector of one stage whose proposals are of the classes that are looked for
// (bench/REPRODUCTION.md, which judges them on the other half): what is asked for is asked for in all frames of a segment, so that it can be predicted
// from one to the next.
func TunedDDS() DDS {
	c := RepoDDS()
	c.Low, c.High = videoext.Quality{QP: 40, Scale: 0.6}, videoext.Quality{QP: 26, Scale: 0.8}
	c.Weak, c.Largest, c.JoinIoU = false, 0.04, 0
	c.Objectness, c.Enlarge, c.Hold, c.Blocks = 0.1, 0.5, c.Frames, true
	return c
}

// Check says what is wrong with a configuration.
func (c *DDS) Check() error {
	for _, q := range []videoext.Quality{c.Low, c.High} {
		if err := q.Check(); err != nil {
			return fmt.Errorf("dds: %w", err)
		}
	}
	switch {
	case c.Frames < 1:
		return fmt.Errorf("dds: segments of %d frames", c.Frames)
	case c.Keep < 1:
		return fmt.Errorf("dds: the camera keeps %d segments; stream B needs one", c.Keep)
	case c.Outside < 0 || c.Outside > 51:
		return fmt.Errorf("dds: QP %d outside of regions is to be 0 to 51", c.Outside)
	case c.Hold < 0:
		return fmt.Errorf("dds: regions held for %d frames", c.Hold)
	case c.Patience <= 0 || c.MaxBacklog <= 0:
		return fmt.Errorf("dds: patience %v and the longest backlog %v are to be above 0", c.Patience, c.MaxBacklog)
	}
	return c.Adapt.check()
}

// New is DDS as a method. The configuration has been checked.
func (c DDS) New() method.Method {
	setting := fmt.Sprintf("%d/%d", c.Low.QP, c.High.QP)
	if c.Adapt != nil {
		setting = "adaptive"
	}
	return method.Method{Name: "dds", Setting: setting, Frames: c.Frames, Inferences: 2, New: func() (method.Camera, method.Server) {
		return newDDSCamera(c), newDDSServer(c)
	}}
}

// wantedDetections are the detections that are looked for.
func (c *DDS) wantedDetections(all []videoext.Detection) []videoext.Detection {
	return videoext.OfClasses(all, c.Classes)
}
