package vision

import (
	"cmp"
	"fmt"
	"slices"
)

// Area is the box's, 0 if it is turned inside out.
func (b Box) Area() float32 { return max(0, b.X1-b.X0) * max(0, b.Y1-b.Y0) }

// IoU is the area that two boxes share, as a part of what they cover together.
func IoU(a, b Box) float32 {
	shared := Box{max(a.X0, b.X0), max(a.Y0, b.Y0), min(a.X1, b.X1), min(a.Y1, b.Y1)}.Area()
	if shared == 0 {
		return 0
	}
	return shared / (a.Area() + b.Area() - shared)
}

// Suppress keeps the best detections: of those of a class whose boxes share more than iou it keeps the better one,
// and of all at most so many. The result is in order of score.
func Suppress(all []Detection, iou float32, most int) []Detection {
	slices.SortStableFunc(all, func(a, b Detection) int { return cmp.Compare(b.Score, a.Score) })
	var kept []Detection
	for _, d := range all {
		if len(kept) == most {
			break
		}
		if !slices.ContainsFunc(kept, func(k Detection) bool { return k.Class == d.Class && IoU(k.Box, d.Box) > iou }) {
			kept = append(kept, d)
		}
	}
	return kept
}

// centredBox is a box by its middle and its size.
func centredBox(x, y, w, h float32) Box { return Box{x - w/2, y - h/2, x + w/2, y + h/2} }

// collect gathers candidates that are good enough as detections, as proposals, or both, and suppresses.
type collect struct {
	o         Options
	all       []Detection
	proposals []Detection // their scores are how likely there is a thing
	row       int         // of the candidate
	worst     float32     // score that is no probability; 0: all are
}

// isCandidate says whether a candidate is good enough; NaN is not.
func (c *collect) isCandidate(score, objectness float32) bool {
	return score >= c.o.Score || c.o.Proposals > 0 && objectness >= c.o.Proposals
}

// mostScore is more than rounding makes of a probability.
const mostScore = 1.01

// addCandidate takes a candidate that is good enough.
func (c *collect) addCandidate(box Box, class int, score, objectness float32) {
	if score > mostScore {
		c.worst = max(c.worst, score)
	}
	if score >= c.o.Score && (c.o.Wanted == nil || slices.Contains(c.o.Wanted, class)) {
		c.all = append(c.all, Detection{Box: box, Class: class, Score: min(score, 1), row: c.row})
	}
	if c.o.Proposals > 0 && objectness >= c.o.Proposals {
		c.proposals = append(c.proposals, Detection{Box: box, Score: min(objectness, 1)})
	}
}

// objectness is how likely there is a thing, which the network says itself to be so likely, and whose classes have these scores. It is
// looked at by those who asked for proposals.
func (c *collect) objectness(itself float32, scores []float32) (sum float32) {
	switch {
	case c.o.Proposals == 0:
		return 0
	case c.o.Wanted == nil && itself >= 0:
		return itself
	case c.o.Wanted == nil:
		for _, s := range scores {
			sum += s
		}
		return sum
	}
	for _, class := range c.o.Wanted {
		if class >= 0 && class < len(scores) {
			sum += scores[class]
		}
	}
	if itself >= 0 {
		sum *= itself
	}
	return sum
}

// unsaid is the objectness of networks that say none.
const unsaid = -1

// finalResult suppresses, and cuts boxes to the picture. Those beyond it, and those of no numbers, go.
func (c *collect) finalResult() (Result, error) {
	if c.worst > 0 {
		return Result{}, fmt.Errorf("a score is %.3g, and scores are to be probabilities: the outputs are those of another kind of network, or lack its last sigmoid", c.worst)
	}
	r := Result{Detections: Suppress(clipDetections(c.all, c.o.Input), c.o.IoU, c.o.Most)}
	for _, d := range Suppress(clipDetections(c.proposals, c.o.Input), proposalIoU, c.o.Most) {
		r.Proposals = append(r.Proposals, Proposal{Box: d.Box, Objectness: d.Score})
	}
	return r, nil
}

// proposalIoU is the overlap above which the worse of two proposals goes: that of region proposal networks (Ren and others, "Faster R-CNN",
// section 3.3).
const proposalIoU = 0.7

// clipDetections keeps the parts of boxes that are in a picture of a size.
func clipDetections(all []Detection, s Size) (inside []Detection) {
	for _, d := range all {
		d.Box = d.Box.clipToSize(s)
		if d.Box.X0 < d.Box.X1 && d.Box.Y0 < d.Box.Y1 {
			inside = append(inside, d)
		}
	}
	return inside
}

// bestClass is the greatest of scores, and which it is.
func bestClass(scores []float32) (class int, score float32) {
	for i, s := range scores {
		if i == 0 || s > score {
			class, score = i, s
		}
	}
	return class, score
}

// Place maps what was found in a part of a network's input, from its upper left corner on, to the picture that the part
// was made of. What is beyond the picture goes.
func (r *Result) Place(part, picture Size) {
	x, y := float32(picture.Width)/float32(part.Width), float32(picture.Height)/float32(part.Height)
	for i := range r.Detections {
		r.Detections[i].Box = r.Detections[i].Box.scale(x, y)
	}
	r.Detections = clipDetections(r.Detections, picture)
	kept := r.Proposals[:0]
	for _, p := range r.Proposals {
		if p.Box = p.Box.scale(x, y).clipToSize(picture); p.Box.Area() > 0 {
			kept = append(kept, p)
		}
	}
	r.Proposals = kept
}

func (b Box) scale(x, y float32) Box { return Box{b.X0 * x, b.Y0 * y, b.X1 * x, b.Y1 * y} }

// clipToSize is the part of a box that is in a picture of a size.
func (b Box) clipToSize(s Size) Box {
	return Box{max(b.X0, 0), max(b.Y0, 0), min(b.X1, float32(s.Width)), min(b.Y1, float32(s.Height))}
}
