package methods

import (
	"fmt"
	"math"
	"time"

	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// DDSAdapt says how the two QPs follow the bandwidth.
//
// The form is that of Imes and others, "POET" (RTAS 2015): a Kalman filter estimates the base bandwidth, what the configured QPs would take of the video
// as it is now, out of what the QPs in use took; the budget over that says how dear they may be. Each stream has a base of its own, since what stream B
// of a segment takes is known a segment later than what stream A does. That DDS's own controller (SIGCOMM 2020) is of this form was not checked against its
// text, and the constants are this package's own.
type DDSAdapt struct {
	Finer, Coarser int     // by how much both QPs may be below and above the configured ones
	Process        float64 // variance of a base's change from segment to segment, relative to its square
	Noise          float64 // variance of what one segment takes, likewise
	Share          float64 // of the bandwidth that is used
	Drain          float64 // of the backlog that is to be sent in one segment's time
}

// DefaultDDSAdapt goes from six times the bytes of the configured QPs to a sixth.
func DefaultDDSAdapt() *DDSAdapt {
	return &DDSAdapt{Finer: 16, Coarser: 16, Process: 0.01, Noise: 0.04, Share: 0.9, Drain: 0.5}
}

// relativeBytes is how many bytes a QP takes relative to another one: 6 more halve them.
func relativeBytes(qp, than int) float64 { return math.Exp2(float64(than-qp) / 6) }

func (a *DDSAdapt) check() error {
	switch {
	case a == nil:
		return nil
	case a.Finer < 0 || a.Coarser < 0 || a.Finer > media.MaxQP || a.Coarser > media.MaxQP:
		return fmt.Errorf("dds: QPs that are up to %d finer and %d coarser are to be 0 to %d", a.Finer, a.Coarser, media.MaxQP)
	case !(a.Process > 0 && a.Noise > 0 && a.Share > 0 && a.Drain >= 0):
		return fmt.Errorf("dds: the controller's variances and share are to be above 0")
	}
	return nil
}

// ddsController picks the QPs of both streams.
type ddsController struct {
	a     *DDSAdapt // nil: they are the configured ones
	qps   [2]int    // the configured ones, of streams A and B
	bases [2]baseBytes
	used  []segmentUse // the last of them, at most maxUsed
}

// segmentUse is what a segment is encoded with.
type segmentUse struct {
	segment method.Segment
	qps     [2]int
}

// maxUsed is how many segments are remembered: stream B comes later than A.
const maxUsed = 4

// baseBytes is what the configured QP takes of one stream, in bytes a segment.
type baseBytes struct {
	bytes    float64
	variance float64 // relative to its square; 0: nothing is known
}

// updateEstimate is the Kalman filter's step: what was seen is the base and noise.
func (b *baseBytes) updateEstimate(a *DDSAdapt, seen float64) {
	if b.variance == 0 {
		b.bytes, b.variance = seen, a.Noise
		return
	}
	prior := b.variance + a.Process
	gain := prior / (prior + a.Noise)
	b.bytes += gain * (seen - b.bytes)
	b.variance = (1 - gain) * prior
}

// recordSentBytes counts what a stream of a segment took: once, and 0 if nothing was asked for.
func (c *ddsController) recordSentBytes(segment method.Segment, stream method.Stream, bytes int) {
	for _, u := range c.used {
		if u.segment == segment {
			c.bases[stream].updateEstimate(c.a, float64(bytes)/relativeBytes(u.qps[stream], c.qps[stream]))
		}
	}
}

// nextQPs are the QPs of a segment. It was captured so long after the one before, for a link of a bandwidth in bytes a second on which so many bytes wait.
func (c *ddsController) nextQPs(segment method.Segment, took time.Duration, link method.Link) [2]int {
	if c.a == nil {
		return c.qps
	}
	qps := c.chooseQPs(took, link)
	c.used = append(c.used[max(0, len(c.used)-maxUsed+1):len(c.used):len(c.used)], segmentUse{segment, qps})
	return qps
}

// chooseQPs are the finest QPs within the budget. Before anything is known of the video, or of the link, they are the configured ones.
func (c *ddsController) chooseQPs(took time.Duration, link method.Link) [2]int {
	a := c.a
	if c.bases[method.A].variance == 0 || link.Bandwidth <= 0 {
		return c.qps
	}
	budget := a.Share*link.Bandwidth*took.Seconds() - a.Drain*float64(link.Backlog)
	for above := -a.Finer; above < a.Coarser; above++ {
		if qps := c.offsetQPs(above); c.segmentBytes(qps) <= budget {
			return qps
		}
	}
	return c.offsetQPs(a.Coarser)
}

// offsetQPs are QPs that are so much higher than the configured ones, as far as there are such.
func (c *ddsController) offsetQPs(by int) (qps [2]int) {
	for stream, qp := range c.qps {
		qps[stream] = min(max(qp+by, 0), media.MaxQP)
	}
	return qps
}

// segmentBytes is what a segment is to take.
func (c *ddsController) segmentBytes(qps [2]int) (sum float64) {
	for stream, b := range c.bases {
		sum += b.bytes * relativeBytes(qps[stream], c.qps[stream])
	}
	return sum
}
