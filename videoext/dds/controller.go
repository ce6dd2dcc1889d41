package dds

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Adapt says how the two QPs follow the bandwidth.
//
// The form is that of Imes and others, "POET" (RTAS 2015): a Kalman filter estimates the base bandwidth, what the default pair would take of the video as
// it is now, out of what the pair in use took; the budget over that says how dear a pair may be. That DDS's own controller (SIGCOMM 2020) is of this form was
// not checked against its text, and the constants and the pairs' costs are this package's own.
type Adapt struct {
	Pairs   []Pair  // the dearest first
	Process float64 // variance of the base's change from segment to segment, relative to its square
	Noise   float64 // variance of what one segment takes, likewise
	Share   float64 // of the bandwidth that is used
	Drain   float64 // of the backlog that is to be sent in one segment's time
}

// Pair are the QPs of streams A and B, and the bytes they take relative to the default pair's.
type Pair struct {
	Low, High int
	Cost      float64
}

// DefaultAdapt has pairs around the default one, 36/26, that differ in both QPs alike: 6 more halve the bytes.
func DefaultAdapt() *Adapt {
	a := &Adapt{Process: 0.01, Noise: 0.04, Share: 0.9, Drain: 0.5}
	for low := 26; low <= 51; low++ {
		high := max(low-10, 20)
		a.Pairs = append(a.Pairs, Pair{low, high, 0.6*cost(low, 36) + 0.4*cost(high, 26)})
	}
	return a
}

// cost is how many bytes a QP takes relative to another one.
func cost(qp, than int) float64 { return math.Exp2(float64(than-qp) / 6) }

func (a *Adapt) check() error {
	if a == nil {
		return nil
	}
	if len(a.Pairs) == 0 || !slices.IsSortedFunc(a.Pairs, func(p, q Pair) int { return -int(math.Copysign(1, p.Cost-q.Cost)) }) {
		return fmt.Errorf("dds: pairs of QPs are to be in order of cost, the dearest first")
	}
	for _, p := range a.Pairs {
		if p.Low < 0 || p.Low > 51 || p.High < 0 || p.High > 51 || !(p.Cost > 0) {
			return fmt.Errorf("dds: pair %+v: QPs are to be 0 to 51, and the cost above 0", p)
		}
	}
	if !(a.Process > 0 && a.Noise > 0 && a.Share > 0 && a.Drain >= 0) {
		return fmt.Errorf("dds: the controller's variances and share are to be above 0")
	}
	return nil
}

// controller picks pairs. Its base is in bytes a segment.
type controller struct {
	a        *Adapt
	base     float64 // estimated; 0: unknown
	variance float64 // of the estimate, relative to its square
	used     []use   // of segments whose bytes are still counted, at most maxUsed
}

// use is what a segment took so far.
type use struct {
	segment int
	pair    Pair
	bytes   int
}

// maxUsed is how many segments are counted before the first of them goes into the estimate: stream B comes later than A.
const maxUsed = 3

func newController(a *Adapt) *controller { return &controller{a: a} }

// sent counts bytes of a segment.
func (c *controller) sent(segment, bytes int) {
	for i := range c.used {
		if c.used[i].segment == segment {
			c.used[i].bytes += bytes
		}
	}
}

// next is the pair of a segment, took after the one before, of a link of a bandwidth in bytes a second and so many bytes that wait.
func (c *controller) next(segment int, took time.Duration, bandwidth float64, backlog int) Pair {
	if len(c.used) == maxUsed {
		c.learn(c.used[0])
		c.used = c.used[1:]
	}
	pair := c.pick(took, bandwidth, backlog)
	c.used = append(c.used[:len(c.used):len(c.used)], use{segment: segment, pair: pair})
	return pair
}

// learn is the Kalman filter's step: bytes = cost * base + noise.
func (c *controller) learn(u use) {
	seen := float64(u.bytes) / u.pair.Cost
	switch {
	case u.bytes == 0: // nothing was sent
		return
	case c.base == 0:
		c.base, c.variance = seen, c.a.Noise
		return
	}
	prior := c.variance + c.a.Process
	gain := prior / (prior + c.a.Noise)
	c.base += gain * (seen - c.base)
	c.variance = (1 - gain) * prior
}

// pick is the dearest pair within the budget. Before anything is known of the video, or of the link, it is the default.
func (c *controller) pick(took time.Duration, bandwidth float64, backlog int) Pair {
	base := c.base
	if base == 0 && len(c.used) > 0 && c.used[0].bytes > 0 {
		base = float64(c.used[0].bytes) / c.used[0].pair.Cost
	}
	if base == 0 || bandwidth <= 0 {
		i := slices.IndexFunc(c.a.Pairs, func(p Pair) bool { return p.Cost <= 1 })
		return c.a.Pairs[max(i, 0)]
	}
	budget := (c.a.Share*bandwidth*took.Seconds() - c.a.Drain*float64(backlog)) / base
	for _, p := range c.a.Pairs {
		if p.Cost <= budget {
			return p
		}
	}
	return c.a.Pairs[len(c.a.Pairs)-1]
}
