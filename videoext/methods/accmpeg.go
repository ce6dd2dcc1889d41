package methods

import (
	"fmt"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// AccMPEG encodes those macroblocks in high quality in which a small network on the camera says that the server's looks (Du and others, "AccMPEG:
// Optimizing Video Encoding for Accurate Video Analytics", MLSys 2022, sections 4 and 5). The paper trains a network for that, whose output is a score for
// each macroblock; here the camera's detector stands in: a macroblock has the score of the best box that touches it.
type AccMPEG struct {
	Common
	Score float32 // of a macroblock in high quality, at least: the mean of those in the segment's first and last frames
	High  videoext.Quality
	Low   int // QP of the rest
}

// DefaultAccMPEG has the constants of the paper's runs.
func DefaultAccMPEG() AccMPEG {
	return AccMPEG{Common: UsualCommon(), Score: 0.2, High: videoext.Quality{QP: 30, Scale: 1}, Low: 40}
}

// Check says what is wrong with a configuration.
func (c *AccMPEG) Check() error {
	if err := c.Common.check("accmpeg"); err != nil {
		return err
	}
	if err := c.High.Check(); err != nil {
		return err
	}
	return checkQP("accmpeg", c.Low)
}

// New is AccMPEG as a method. The configuration has been checked.
func (c AccMPEG) New() method.Method {
	setting := fmt.Sprintf("%d/%d at %g", c.Low, c.High.QP, c.Score)
	return method.Method{Name: "accmpeg", Setting: setting, Frames: c.Frames, New: func() (method.Camera, method.Server) {
		return &accmpegCamera{c: c, up: uplink{longest: c.MaxBacklog}}, &method.OneStream{How: method.Plain{}, Classes: c.Classes}
	}}
}

type accmpegCamera struct {
	c  AccMPEG
	up uplink
	pending
}

// Step implements method.Camera.
func (a *accmpegCamera) Step(_ time.Duration, event method.CameraEvent) []method.CameraAction {
	switch e := event.(type) {
	case method.Captured:
		a.addSegment(e)
		return []method.CameraAction{method.Detect{Segment: e.Segment, Frames: slices.Compact([]int{0, e.Frames - 1})}}
	case method.Found:
		w := a.findSegment(e.Segment)
		if w == nil {
			return nil
		}
		captured := w.Captured
		w.ready, w.send = true, func() []method.CameraAction {
			return a.up.sendFrames(captured, frameNumbers(captured.Frames), a.segmentSettings(captured, e.Findings))
		}
		return a.flushReady()
	case method.Link:
		a.up.Link = e
	}
	return nil
}

// segmentSettings have one map for all of a segment.
func (a *accmpegCamera) segmentSettings(e method.Captured, found []videoext.Findings) media.Settings {
	s := a.c.settingsOf(a.c.High, e)
	m := media.NewQPMap(s.Width, s.Height, uint8(a.c.Low))
	for i, score := range a.macroblockScores(found, s.Width, s.Height) {
		if score >= a.c.Score {
			m.QP[i] = uint8(a.c.High.QP)
		}
	}
	s.Quality = media.Maps{m}
	return s
}

// macroblockScores are those of macroblocks, the mean over frames.
func (a *accmpegCamera) macroblockScores(found []videoext.Findings, width, height int) []float32 {
	grid := media.NewQPMap(width, height, 0)
	means := make([]float32, len(grid.QP))
	for i := range found {
		best := make([]float32, len(grid.QP))
		for _, d := range videoext.OfClasses(found[i].Detections, a.c.Classes) {
			grid.Each(d.Pixels(width, height), func(block int) { best[block] = max(best[block], d.Score) })
		}
		for block, score := range best {
			means[block] += score / float32(len(found))
		}
	}
	return means
}
