package vision

import (
	"cmp"
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

// centred is a box by its middle and its size.
func centred(x, y, w, h float32) Box { return Box{x - w/2, y - h/2, x + w/2, y + h/2} }

// collect gathers candidates of at least a score, and suppresses.
type collect struct {
	o   Options
	all []Detection
}

// wants says whether a candidate is good enough; NaN is not.
func (c *collect) wants(score float32) bool { return score >= c.o.Score }

func (c *collect) add(box Box, class int, score float32) {
	c.all = append(c.all, Detection{Box: box, Class: class, Score: min(score, 1)})
}

// result suppresses, and cuts boxes to the picture. Those beyond it, and those of no numbers, go.
func (c *collect) result() Result {
	return Result{Detections: Suppress(cut(c.all, c.o.Input), c.o.IoU, c.o.Most)}
}

// cut keeps the parts of boxes that are in a picture of a size.
func cut(all []Detection, s Size) (inside []Detection) {
	for _, d := range all {
		d.Box = Box{max(d.Box.X0, 0), max(d.Box.Y0, 0), min(d.Box.X1, float32(s.Width)), min(d.Box.Y1, float32(s.Height))}
		if d.Box.X0 < d.Box.X1 && d.Box.Y0 < d.Box.Y1 {
			inside = append(inside, d)
		}
	}
	return inside
}

// best is the greatest of scores, and which it is.
func best(scores []float32) (class int, score float32) {
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
		b := &r.Detections[i].Box
		b.X0, b.X1, b.Y0, b.Y1 = b.X0*x, b.X1*x, b.Y0*y, b.Y1*y
	}
	r.Detections = cut(r.Detections, picture)
}
