package streams

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// handleResults keeps final ones until those before are final, and delivers others.
func (c *Core) handleResults(now time.Duration, r method.Results) {
	s := c.findSegment(r.Segment)
	if s == nil || s.final != nil || len(r.Frames) != len(s.times) {
		return
	}
	if r.Final {
		s.final = r.Frames
		return
	}
	c.deliverResults(now, s, r.Frames, false)
}

func (c *Core) deliverResults(now time.Duration, s *segment, frames []videoext.Findings, final bool) {
	d := Deliver{Results: make([]Result, len(frames))}
	for i, f := range frames {
		c.c.Number++
		d.Results[i] = Result{
			Number: c.c.Number, Segment: s.number, Frame: i, Of: len(frames), Final: final, Time: s.times[i], Findings: f,
			Discontinuity: slices.Contains(s.breaks, i), Latency: now - s.came, Late: c.c.Deadline > 0 && now-s.came > c.c.Deadline, Why: s.why[i],
		}
		if s.regions != nil {
			d.Results[i].Regions = s.regions[i]
		}
		if final {
			c.countResult(&d.Results[i])
		}
	}
	c.addAction(d)
}

func (c *Core) countResult(r *Result) {
	c.counts.Frames++
	c.counts.Regions += uint64(len(r.Regions))
	switch {
	case r.Why != "" && r.Why != LeftOut:
		c.counts.Dropped++
	case r.Late:
		c.counts.Late++
	}
	for _, d := range r.Findings.Detections {
		c.counts.Things++
		c.counts.Score += float64(d.Score)
	}
}

// expireSegments wakes the method, and gives up the first segment when it has taken too long.
func (c *Core) expireSegments(now time.Duration) {
	if now >= c.wake {
		c.wake = math.MaxInt64
		c.stepMethod(now, method.Woke{})
	}
	for len(c.inferences) == 0 && c.ended && !c.over {
		c.over = true
		c.stepMethod(now, method.Ended{})
	}
	for _, s := range c.under {
		if now-s.came < c.c.Patience {
			break
		}
		s.giveUp(fmt.Sprintf("it had no results after %v", c.c.Patience))
	}
	c.crowdOut(now)
	if c.over {
		for _, s := range c.under {
			s.giveUp("the stream ended before")
		}
	}
}

// crowdOut gives up the oldest segments that wait for the camera, where more are under way than may be.
func (c *Core) crowdOut(now time.Duration) {
	for _, s := range c.under[:max(len(c.under)-c.c.Most, 0)] {
		if c.isInferring(s.number) {
			return
		}
		if s.final == nil {
			s.high = true
			c.stepMethod(now, method.Failed{Segment: s.number, Stream: method.B, Of: len(s.times)})
		}
		s.giveUp(fmt.Sprintf("%d segments behind it have come before its results", c.c.Most))
	}
}

// isInferring says that the network is yet to say what is in frames of a segment.
func (c *Core) isInferring(n method.Segment) bool {
	for _, in := range c.inferences {
		if in.Segment == n {
			return true
		}
	}
	return false
}

// giveUp ends a segment without results, if it has none.
func (s *segment) giveUp(why string) {
	if s.final == nil {
		s.final = make([]videoext.Findings, len(s.times))
		s.setReasonForAll(why)
	}
}

// deliverFinal delivers what is final, in order.
func (c *Core) deliverFinal(now time.Duration) {
	for len(c.under) > 0 && c.under[0].final != nil {
		s := c.under[0]
		c.under = c.under[1:]
		c.deliverResults(now, s, s.final, true)
		c.addAction(Done{s.number})
		c.addAction(Free{s.number})
	}
	if c.over && len(c.under) == 0 && c.ended {
		c.ended = false
		c.addAction(Finished{})
	}
}
