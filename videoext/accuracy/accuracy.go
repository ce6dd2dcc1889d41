// Package accuracy says how well what was found in frames agrees with what is taken for the truth.
package accuracy

import (
	"slices"

	"github.com/prefillonly/prefillonly/videoext"
)

// Rule is how F1 is counted. Boxes are looked at by class.
type Rule struct {
	Classes []int   // that count; nil: all
	Truth   float32 // least score of what is taken for true
	Found   float32 // least score of what was found
	Area    float32 // of boxes that count, at most; 0: any
	IoU     float32 // that a match has at least
	// PerFrame takes the mean of frames' F1; else boxes of all frames are counted together.
	PerFrame bool
}

// DDS is the rule of DDS's published evaluation: a box found is right if any true one matches, and a true one is missed if none does,
// so that several may match one.
func DDS(classes ...int) Rule {
	return Rule{Classes: classes, Truth: 0.3, Found: 0.5, Area: 0.04, IoU: 0.3}
}

// OneAdapt is the rule of OneAdapt's: true boxes with any match are right, and what was found beyond their number is wrong. A frame
// in which both are none has 1.
func OneAdapt(classes ...int) Rule {
	return Rule{Classes: classes, Truth: 0.5, Found: 0.5, Area: 0.08, IoU: 0.5, PerFrame: true}
}

// Counts are boxes that are right, wrong and missed.
type Counts struct{ Right, Wrong, Missed int }

// F1 is the harmonic mean of precision and recall; 1 if there is nothing, and nothing was found.
func (c Counts) F1() float64 {
	if c == (Counts{}) {
		return 1
	}
	return 2 * float64(c.Right) / float64(2*c.Right+c.Wrong+c.Missed)
}

// F1 compares frames one by one; there are as many of both.
func (r Rule) F1(truth, found []videoext.Findings) float64 {
	var all Counts
	sum := 0.0
	for i := range truth {
		c := r.Count(truth[i].Detections, found[i].Detections)
		sum += c.F1()
		all.Right, all.Wrong, all.Missed = all.Right+c.Right, all.Wrong+c.Wrong, all.Missed+c.Missed
	}
	switch {
	case !r.PerFrame:
		return all.F1()
	case len(truth) == 0:
		return 1
	}
	return sum / float64(len(truth))
}

// Count compares a frame.
func (r Rule) Count(truth, found []videoext.Detection) (c Counts) {
	truth, found = r.countedBoxes(truth, r.Truth), r.countedBoxes(found, r.Found)
	matched := r.countMatches(truth, found)
	c.Missed = len(truth) - matched
	if r.PerFrame {
		c.Right, c.Wrong = matched, max(len(found)-matched, 0)
		return c
	}
	c.Right = r.countMatches(found, truth)
	c.Wrong = len(found) - c.Right
	return c
}

// Objects is how many true boxes count in a frame, on average.
func (r Rule) Objects(truth []videoext.Findings) float64 {
	n := 0
	for i := range truth {
		n += len(r.countedBoxes(truth[i].Detections, r.Truth))
	}
	return float64(n) / float64(max(len(truth), 1))
}

// countMatches is how many of some boxes have a match among others.
func (r Rule) countMatches(some, others []videoext.Detection) (n int) {
	for _, a := range some {
		if slices.ContainsFunc(others, func(b videoext.Detection) bool { return a.Class == b.Class && a.IoU(b.Region) >= r.IoU }) {
			n++
		}
	}
	return n
}

// countedBoxes are the boxes that count.
func (r Rule) countedBoxes(all []videoext.Detection, score float32) (some []videoext.Detection) {
	for _, d := range all {
		if d.Score >= score && (r.Area == 0 || d.Area() <= r.Area) && (r.Classes == nil || slices.Contains(r.Classes, d.Class)) {
			some = append(some, d)
		}
	}
	return some
}

// MeanIoU is that of Overlaps over all classes, of frames counted together. A frame without a mask counts as of the first class.
func MeanIoU(truth, found []videoext.Findings) float64 {
	var o Overlaps
	for i := range truth {
		o.Count(truth[i].Mask, found[i].Mask)
	}
	return o.MeanIoU(0)
}

// Overlaps are numbers of pixels by class.
type Overlaps struct {
	True   [256]int // that the truth has
	Both   [256]int // of them, those found
	Either [256]int // that the truth has or were found
}

// Count adds a frame's. A mask of another size than the truth's is read at the place of the truth's pixels.
func (o *Overlaps) Count(truth, found *videoext.Mask) {
	if truth == nil {
		return
	}
	for y := range truth.Height {
		for x := range truth.Width {
			a, b := truth.Class[y*truth.Width+x], classAt(found, x, y, truth.Width, truth.Height)
			o.True[a]++
			o.Either[a]++
			if a == b {
				o.Both[a]++
			} else {
				o.Either[b]++
			}
		}
	}
}

// Add adds others.
func (o *Overlaps) Add(p *Overlaps) {
	for class := range o.True {
		o.True[class] += p.True[class]
		o.Both[class] += p.Both[class]
		o.Either[class] += p.Either[class]
	}
}

// MeanIoU is, over the classes that the truth or what was found has, and the truth on a share of its pixels, the mean of the area that both have of a class,
// as a part of what either has; 1 if there is none.
func (o *Overlaps) MeanIoU(share float64) float64 {
	pixels, sum, n := 0, 0.0, 0
	for _, t := range o.True {
		pixels += t
	}
	for class, e := range o.Either {
		if e > 0 && float64(o.True[class]) >= share*float64(pixels) {
			sum += float64(o.Both[class]) / float64(e)
			n++
		}
	}
	if n == 0 {
		return 1
	}
	return sum / float64(n)
}

// SamePixels is the part of a frame's pixels, as the truth's mask has them, that are of the same class in what was found. A frame without a mask counts as of the first class.
func SamePixels(truth, found *videoext.Mask) float64 {
	same := 0
	for y := range truth.Height {
		for x := range truth.Width {
			if truth.Class[y*truth.Width+x] == classAt(found, x, y, truth.Width, truth.Height) {
				same++
			}
		}
	}
	return float64(same) / float64(max(truth.Width*truth.Height, 1))
}

// classAt is the class at the place of pixel x, y of a mask of width x height.
func classAt(m *videoext.Mask, x, y, width, height int) uint8 {
	if m == nil {
		return 0
	}
	return m.Class[y*m.Height/height*m.Width+x*m.Width/width]
}

// BoxIoU is the mean IoU of boxes of at least a score: each true box goes with the found one of its class that it overlaps most, the best pairs first, and those of either
// that have none count as 0. It is the mean over frames; one in which there is nothing, and nothing was found, has 1.
func BoxIoU(truth, found []videoext.Findings, score float32) float64 {
	sum, rule := 0.0, Rule{}
	for i := range truth {
		sum += boxIoU(rule.countedBoxes(truth[i].Detections, score), rule.countedBoxes(found[i].Detections, score))
	}
	if len(truth) == 0 {
		return 1
	}
	return sum / float64(len(truth))
}

// boxIoU is that of a frame.
func boxIoU(truth, found []videoext.Detection) float64 {
	n, sum := len(truth)+len(found), 0.0
	if n == 0 {
		return 1
	}
	for {
		best, at, with := float32(0), 0, 0
		for i, a := range truth {
			for j, b := range found {
				if iou := a.IoU(b.Region); a.Class == b.Class && iou > best {
					best, at, with = iou, i, j
				}
			}
		}
		if best == 0 {
			return sum / float64(n)
		}
		truth, found = slices.Delete(truth, at, at+1), slices.Delete(found, with, with+1)
		sum += float64(best)
		n-- // two boxes are one
	}
}
