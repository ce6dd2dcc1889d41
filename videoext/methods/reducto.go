package methods

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// Reducto leaves frames out on the camera that differ little from the last one that was sent (Li and others, "Reducto: On-Camera Filtering
// for Resource-Efficient Real-Time Video Analytics", SIGCOMM 2020, sections 4 and 5). How much is little depends on how the segment's
// frames differ: it is that of the most similar segments which were profiled.
type Reducto struct {
	Common
	videoext.Quality
	Feature   method.Feature
	Threshold float64        // of summed differences, for a frame to be sent; of all segments if Profile is nil
	Profile   *FilterProfile // by FilterFeature
}

// FilterProfile says which threshold is good for segments like those that were looked at.
type FilterProfile struct {
	Target   float64 // the least accuracy
	Longest  float64 // difference of one frame; greater ones count as that
	Examples []FilterExample
}

// FilterExample is a segment that was looked at.
type FilterExample struct {
	Histogram []float64 // of how its frames differ
	Threshold float64
}

// FilterFeature is what profiles compare frames by: what the paper finds best for detection.
const FilterFeature = method.Edge

// Constants of the published code (github.com/reducto-sigcomm-2020/reducto).
const (
	histogramBins = 30
	neighbours    = 5
)

// Learn adds a segment to a profile: with the greatest of some thresholds whose frames are enough for its Target, or 0. Accuracy is that of
// the segment when only the given frames are looked at.
func (p *FilterProfile) Learn(differences []float64, thresholds []float64, accuracy func(frames []int) float64) {
	e := FilterExample{Histogram: p.differenceHistogram(differences)}
	for _, t := range thresholds {
		if t > e.Threshold && accuracy(keptFrames(differences, t)) >= p.Target {
			e.Threshold = t
		}
	}
	p.Examples = append(p.Examples, e)
}

// differenceHistogram is the part of frames in each of equal ranges of differences; the first frame has none.
func (p *FilterProfile) differenceHistogram(differences []float64) []float64 {
	h := make([]float64, histogramBins)
	for _, d := range differences[min(1, len(differences)):] {
		i := histogramBins - 1
		if d < p.Longest {
			i = int(d / p.Longest * histogramBins)
		}
		h[i] += 1 / float64(len(differences)-1)
	}
	return h
}

// weightedThreshold is the mean of those of the most similar examples, weighted by how similar they are.
func (p *FilterProfile) weightedThreshold(differences []float64) float64 {
	h := p.differenceHistogram(differences)
	type near struct{ distance, threshold float64 }
	var all []near
	for _, e := range p.Examples {
		sum := 0.0
		for i := range h {
			sum += (h[i] - e.Histogram[i]) * (h[i] - e.Histogram[i])
		}
		all = append(all, near{math.Sqrt(sum), e.Threshold})
	}
	slices.SortStableFunc(all, func(a, b near) int { return cmp.Compare(a.distance, b.distance) })
	sum, weights := 0.0, 0.0
	for _, n := range all[:min(neighbours, len(all))] {
		w := 1 / max(n.distance, 1e-9)
		sum, weights = sum+w*n.threshold, weights+w
	}
	if weights == 0 {
		return 0
	}
	return sum / weights
}

// keptFrames are the frames of a segment that are to be sent: the first, and each for which the differences since the last one that is sent
// sum up to more than a threshold.
func keptFrames(differences []float64, threshold float64) (frames []int) {
	sum := 0.0
	for i, d := range differences {
		if sum += d; i == 0 || sum > threshold {
			frames, sum = append(frames, i), 0
		}
	}
	return frames
}

// Check says what is wrong with a configuration.
func (c *Reducto) Check() error {
	if err := c.Common.check("reducto"); err != nil {
		return err
	}
	if c.Profile != nil && len(c.Profile.Examples) == 0 {
		return fmt.Errorf("reducto: a profile of no segments")
	}
	if c.Profile != nil && c.Feature != FilterFeature {
		return fmt.Errorf("reducto: profiles are by another feature; give a threshold with this one")
	}
	if !(c.Threshold >= 0) {
		return fmt.Errorf("reducto: a threshold of %g is to be 0 or more", c.Threshold)
	}
	return c.Quality.Check()
}

// New is Reducto as a method. The configuration has been checked.
func (c Reducto) New() method.Method {
	setting := fmt.Sprintf("%v over %g", c.Quality, c.Threshold)
	if c.Profile != nil {
		setting = fmt.Sprintf("%v for %g", c.Quality, c.Profile.Target)
	}
	return method.Method{Name: "reducto", Setting: setting, Frames: c.Frames, New: func() (method.Camera, method.Server) {
		return &reductoCamera{c: c, up: uplink{longest: c.MaxBacklog}}, &method.OneStream{How: method.Plain{}, Classes: c.Classes}
	}}
}

type reductoCamera struct {
	c  Reducto
	up uplink
	pending
}

// Step implements method.Camera.
func (r *reductoCamera) Step(_ time.Duration, event method.CameraEvent) []method.CameraAction {
	switch e := event.(type) {
	case method.Captured:
		r.addSegment(e)
		return []method.CameraAction{method.Measure{Segment: e.Segment, Feature: r.c.Feature}}
	case method.Measured:
		w := r.findSegment(e.Segment)
		if w == nil {
			return nil
		}
		captured := w.Captured
		w.ready, w.send = true, func() []method.CameraAction {
			return r.up.sendFrames(captured, r.chooseFrames(e.Values), r.c.settingsOf(r.c.Quality, captured))
		}
		return r.flushReady()
	case method.Link:
		r.up.Link = e
	}
	return nil
}

func (r *reductoCamera) chooseFrames(differences []float64) []int {
	threshold := r.c.Threshold
	if r.c.Profile != nil {
		threshold = r.c.Profile.weightedThreshold(differences)
	}
	return keptFrames(differences, threshold)
}
