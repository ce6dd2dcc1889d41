package videoext

import (
	"cmp"
	"image"
	"math"
	"slices"
)

// Region is a rectangle of a frame, from the upper left corner X0, Y0 to X1, Y1, each from 0 to 1 of the frame's width or
// height.
type Region struct{ X0, Y0, X1, Y1 float32 }

// Whole is all of a frame.
var Whole = Region{0, 0, 1, 1}

// Area is the region's part of the frame; 0 if it is turned inside out.
func (r Region) Area() float32 { return max(0, r.X1-r.X0) * max(0, r.Y1-r.Y0) }

// Intersect is what two regions share; its area is 0 if that is nothing.
func (r Region) Intersect(s Region) Region {
	return Region{max(r.X0, s.X0), max(r.Y0, s.Y0), min(r.X1, s.X1), min(r.Y1, s.Y1)}
}

// Union is the least region that covers both.
func (r Region) Union(s Region) Region {
	return Region{min(r.X0, s.X0), min(r.Y0, s.Y0), max(r.X1, s.X1), max(r.Y1, s.Y1)}
}

// IoU is the area that two regions share, as a part of what they cover together.
func (r Region) IoU(s Region) float32 {
	shared := r.Intersect(s).Area()
	if shared == 0 {
		return 0
	}
	return shared / (r.Area() + s.Area() - shared)
}

// Grow adds a part of the width to the left and right, and of the height above and below, as far as the frame reaches.
func (r Region) Grow(ratio float32) Region {
	w, h := ratio*(r.X1-r.X0), ratio*(r.Y1-r.Y0)
	return Region{r.X0 - w, r.Y0 - h, r.X1 + w, r.Y1 + h}.Intersect(Whole)
}

// Pixels is the region in a frame of width x height pixels. All pixels that it touches belong to it.
func (r Region) Pixels(width, height int) image.Rectangle {
	low := func(v float32, n int) int { return int(math.Floor(float64(v)*float64(n) + 1e-3)) }
	high := func(v float32, n int) int { return int(math.Ceil(float64(v)*float64(n) - 1e-3)) }
	all := image.Rectangle{image.Pt(low(r.X0, width), low(r.Y0, height)), image.Pt(high(r.X1, width), high(r.Y1, height))}
	return all.Intersect(image.Rect(0, 0, width, height))
}

// Suppress keeps the best detections, in order of score: of those of a class that overlap by more than iou, the better.
func Suppress(all []Detection, iou float32) []Detection {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Detection) int { return cmp.Compare(b.Score, a.Score) })
	var kept []Detection
	for _, d := range all {
		if !slices.ContainsFunc(kept, func(k Detection) bool { return k.Class == d.Class && k.IoU(d.Region) > iou }) {
			kept = append(kept, d)
		}
	}
	return kept
}

// Merge makes one detection of those of a class that are joined by overlaps of more than iou, one to the next: the least
// region around them, with the best one's score. The result is in order of score.
func Merge(all []Detection, iou float32) []Detection {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Detection) int { return cmp.Compare(b.Score, a.Score) })
	group := connectedComponents(len(all), func(i, j int) bool { return all[i].Class == all[j].Class && all[i].IoU(all[j].Region) > iou })
	var merged []Detection
	at := map[int]int{}
	for i, d := range all {
		if k, ok := at[group[i]]; ok {
			merged[k].Region = merged[k].Union(d.Region)
			continue
		}
		at[group[i]] = len(merged)
		merged = append(merged, d)
	}
	return merged
}

// connectedComponents numbers what is joined, by pairs: joined things have the number of the first of them.
func connectedComponents(n int, joined func(i, j int) bool) []int {
	group := make([]int, n)
	for i := range group {
		group[i] = i
	}
	for i := range n {
		for j := range i {
			if group[i] != group[j] && joined(i, j) {
				from, to := max(group[i], group[j]), min(group[i], group[j])
				for k := range i + 1 {
					if group[k] == from {
						group[k] = to
					}
				}
			}
		}
	}
	return group
}

// OfClasses are the detections of some classes; nil: of all.
func OfClasses(all []Detection, classes []int) (some []Detection) {
	for _, d := range all {
		if classes == nil || slices.Contains(classes, d.Class) {
			some = append(some, d)
		}
	}
	return some
}
