package methods

import (
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

// oneAdaptCamera is the side of the frames.
type oneAdaptCamera struct {
	c        OneAdapt
	adapter  *oneadapt.Adapter // nil before the first segment
	link     method.Link
	segments map[method.Segment]*Segment // that are not released
	gradient *oneadapt.Map               // the newest
	told     method.Segment              // of it

	queue   []method.Segment // that wait for how their frames differ, in order
	trying  []knobTrial      // what Try was asked for of a segment, Against first
	of      method.Segment
	asked   int     // trials that the adapter has asked for; one more may be of the dearest configuration
	dearest float64 // cost of that; 0: not known yet
	since   int     // trials since it was measured
}

// knobTrial is a way to encode a segment that was asked about.
type knobTrial struct {
	config  oneadapt.Config
	variant method.Variant
	dearest bool // it is of the dearest configuration
}

// Segment is what Knobs have to know of one.
type Segment struct {
	method.Captured
	Measured [][]float64 // of each of the features, as far as they are there
}

// frameNumbers numbers the frames.
func (s *Segment) frameNumbers() []int {
	frames := make([]int, s.Frames)
	for i := range frames {
		frames[i] = i
	}
	return frames
}

// Step implements method.Camera.
func (c *oneAdaptCamera) Step(_ time.Duration, event method.CameraEvent) []method.CameraAction {
	switch e := event.(type) {
	case method.Captured:
		return c.handleCaptured(e)
	case method.Measured:
		return c.handleMeasured(e)
	case method.Answer:
		if s, ok := e.Content.(method.Sensitive); ok && c.adapter != nil && (c.gradient == nil || e.Segment > c.told) {
			c.gradient, c.told = s.Gradient, e.Segment
			return c.performActions(c.adapter.Step(oneadapt.Answered{Interval: int(e.Segment), Utility: float64(s.Gradient.Utility)}))
		}
	case method.Tried:
		return c.handleTried(e)
	case method.Link:
		c.link = e
	}
	return nil
}

func (c *oneAdaptCamera) handleCaptured(e method.Captured) (do []method.CameraAction) {
	if c.adapter == nil {
		var err error
		if c.adapter, err = c.c.newAdapter(e.Width, e.Height); err != nil {
			return []method.CameraAction{method.Skip{Segment: e.Segment, Stream: method.A, Of: e.Frames}, method.Release{Segment: e.Segment}}
		}
	}
	c.segments[e.Segment], c.queue = &Segment{Captured: e}, append(c.queue, e.Segment)
	if e.Frames > 1 {
		for _, f := range c.c.Knobs.Features() {
			do = append(do, method.Measure{Segment: e.Segment, Feature: f})
		}
	}
	return append(do, c.askAdapter()...)
}

func (c *oneAdaptCamera) handleMeasured(e method.Measured) []method.CameraAction {
	s := c.segments[e.Segment]
	if s == nil || len(s.Measured) == len(c.c.Knobs.Features()) {
		return nil
	}
	s.Measured = append(s.Measured, e.Values)
	return c.askAdapter()
}

// askAdapter asks the adapter about segments of which is known how their frames differ, in order.
func (c *oneAdaptCamera) askAdapter() (do []method.CameraAction) {
	for len(c.queue) > 0 {
		s := c.segments[c.queue[0]]
		if s.Frames > 1 && len(s.Measured) < len(c.c.Knobs.Features()) {
			break
		}
		c.queue = c.queue[1:]
		do = append(do, c.performActions(c.adapter.Step(oneadapt.Captured{Interval: int(s.Segment)}))...)
	}
	return do
}

// performActions carries out what the adapter asks for.
func (c *oneAdaptCamera) performActions(actions []oneadapt.Action) (do []method.CameraAction) {
	var used []method.Segment
	for _, action := range actions {
		switch a := action.(type) {
		case oneadapt.Use:
			do = append(do, c.encodeWith(a)...)
			used = append(used, method.Segment(a.Interval))
		case oneadapt.Measure:
			do = append(do, c.requestTrials(a))
		}
	}
	for _, n := range used {
		delete(c.segments, n)
		do = append(do, method.Release{Segment: n})
	}
	return do
}

// encodeWith sends a segment.
func (c *oneAdaptCamera) encodeWith(a oneadapt.Use) []method.CameraAction {
	n := method.Segment(a.Interval)
	s := c.segments[n]
	if c.link.Jammed(c.c.MaxBacklog) {
		return []method.CameraAction{method.Skip{Segment: n, Stream: method.A, Of: s.Frames}}
	}
	v := c.c.Knobs.Variant(s, a.Config)
	return []method.CameraAction{method.Encode{Segment: n, Stream: method.A, Frames: v.Frames, Settings: v.Settings}}
}

// refreshTrials is after how many trials the cost of the dearest configuration is measured again.
const refreshTrials = 20

// requestTrials asks for trials, and for one of the dearest configuration where its cost is not known well.
func (c *oneAdaptCamera) requestTrials(a oneadapt.Measure) method.CameraAction {
	s := c.segments[method.Segment(a.Interval)]
	configs := append([]oneadapt.Config{a.Against}, a.Configs...)
	c.asked = len(configs)
	top := oneadapt.Dearest(c.c.Knobs.Of(s.Width, s.Height))
	known := slices.ContainsFunc(configs, func(o oneadapt.Config) bool { return slices.Equal(o, top) })
	if c.since++; !known && (c.dearest == 0 || c.since > refreshTrials) {
		configs = append(configs, top)
	}
	c.trying, c.of = c.trying[:0], s.Segment
	for _, config := range configs {
		dearest := slices.Equal(config, top)
		c.trying = append(c.trying, knobTrial{config, c.c.Knobs.Variant(s, config), dearest})
		if dearest {
			c.since = 0
		}
	}
	t := method.Try{Segment: s.Segment, Gradient: c.gradient, Parts: a.Parts > 1, Against: c.trying[0].variant}
	for _, one := range c.trying[1:] {
		t.Variants = append(t.Variants, one.variant)
	}
	return t
}

// handleTried tells the adapter.
func (c *oneAdaptCamera) handleTried(e method.Tried) []method.CameraAction {
	trials := append([]method.Trial{e.Against}, e.Trials...)
	if c.adapter == nil || e.Segment != c.of {
		return nil
	}
	if len(trials) != len(c.trying) {
		return c.performActions(c.adapter.Step(oneadapt.NotMeasured{Interval: int(e.Segment)}))
	}
	measured := make([]oneadapt.Trial, len(trials))
	for i, t := range trials {
		one := &c.trying[i]
		cost := c.c.Knobs.Cost(&one.variant, t.Bytes)
		if one.dearest {
			c.dearest = cost
		}
		measured[i] = oneadapt.Trial{Config: one.config, Changes: t.Changes, Cost: cost}
	}
	for i := range measured {
		measured[i].Cost /= c.dearest
	}
	return c.performActions(c.adapter.Step(oneadapt.Measured{Interval: int(e.Segment), Against: measured[0], Trials: measured[1:c.asked]}))
}
