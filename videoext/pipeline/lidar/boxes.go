package lidar

import (
	"cmp"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/direct"
)

// Car is a car that was found in a sweep.
type Car struct {
	Box
	Score float64 // from 0 to 1
	place int     // of its score in the network's output
}

// What is taken for a car: a score that is at least this, and no car of a higher score that it overlaps by more than this.
const (
	leastScore  = 0.1
	mostOverlap = 0.2
)

// readCars are the cars that scores [places, places] and boxes [6, places, places] tell of: one for each score that is the highest of the nine places around it.
func readCars(scores, boxes *direct.Output) []Car {
	places := scores.Shape[len(scores.Shape)-1]
	var all []Car
	for i, s := range scores.Data {
		if s >= leastScore && isPeak(scores.Data, places, i) {
			all = append(all, Car{boxAt(boxes.Data, places, i), float64(s), i})
		}
	}
	slices.SortStableFunc(all, func(a, b Car) int { return cmp.Compare(b.Score, a.Score) })
	var cars []Car
	for _, c := range all {
		if !slices.ContainsFunc(cars, func(k Car) bool { return boxOverlap(k.Box, c.Box) > mostOverlap }) {
			cars = append(cars, c)
		}
	}
	return cars
}

// isPeak says that no place beside it has a higher score, nor one before it the same.
func isPeak(scores []float32, places, at int) bool {
	row, column := at/places, at%places
	for r := max(row-1, 0); r < min(row+2, places); r++ {
		for c := max(column-1, 0); c < min(column+2, places); c++ {
			if other := r*places + c; scores[other] > scores[at] || scores[other] == scores[at] && other < at {
				return false
			}
		}
	}
	return true
}

// boxAt is a place's box: where in the place its middle is, the logarithms of its sides, and the sine and cosine of twice its yaw.
func boxAt(boxes []float32, places, at int) Box {
	value := func(k int) float64 { return float64(boxes[k*places*places+at]) }
	metres := Side / float64(places)
	return Box{
		X: (float64(at/places)+value(0))*metres - Side/2, Y: (float64(at%places)+value(1))*metres - Side/2,
		Length: math.Exp(min(value(2), 3)), Width: math.Exp(min(value(3), 3)), Yaw: math.Atan2(value(4), value(5)) / 2,
	}
}

// corner is one of a polygon.
type corner struct{ x, y float64 }

// boxCorners go around counter-clockwise.
func boxCorners(b Box) []corner {
	sin, cos := math.Sincos(b.Yaw)
	all := make([]corner, 0, 8)
	for _, s := range [4]corner{{1, 1}, {-1, 1}, {-1, -1}, {1, -1}} {
		l, w := s.x*b.Length/2, s.y*b.Width/2
		all = append(all, corner{b.X + l*cos - w*sin, b.Y + l*sin + w*cos})
	}
	return all
}

// boxOverlap is the area that both boxes have, as a part of what either has.
func boxOverlap(a, b Box) float64 {
	if math.Hypot(a.X-b.X, a.Y-b.Y) > (math.Hypot(a.Length, a.Width)+math.Hypot(b.Length, b.Width))/2 {
		return 0
	}
	both, edges := boxCorners(a), boxCorners(b)
	for i := range edges {
		both = clipPolygon(both, edges[i], edges[(i+1)%len(edges)])
	}
	inside := polygonArea(both)
	return inside / (a.Length*a.Width + b.Length*b.Width - inside)
}

// clipPolygon is what of a polygon is to the left of the line from one corner to another (Sutherland and Hodgman, 1974).
func clipPolygon(polygon []corner, from, to corner) (left []corner) {
	side := func(c corner) float64 { return (to.x-from.x)*(c.y-from.y) - (to.y-from.y)*(c.x-from.x) }
	for i, c := range polygon {
		next := polygon[(i+1)%len(polygon)]
		a, b := side(c), side(next)
		if a >= 0 {
			left = append(left, c)
		}
		if a >= 0 != (b >= 0) {
			t := a / (a - b)
			left = append(left, corner{c.x + t*(next.x-c.x), c.y + t*(next.y-c.y)})
		}
	}
	return left
}

func polygonArea(polygon []corner) (sum float64) {
	for i, c := range polygon {
		next := polygon[(i+1)%len(polygon)]
		sum += (c.x*next.y - next.x*c.y) / 2
	}
	return sum
}

// countMatches are how many of the true boxes have one that was found whose overlap is at least a half, each by one.
func countMatches(truth, found []Box) (n int) {
	free := slices.Clone(found)
	for _, t := range truth {
		best, most := -1, 0.5
		for i, f := range free {
			if o := boxOverlap(t, f); o >= most {
				best, most = i, o
			}
		}
		if best >= 0 {
			free = slices.Delete(free, best, best+1)
			n++
		}
	}
	return n
}

// boxesF1 compares a sweep; 1 if there is nothing and nothing was found.
func boxesF1(truth, found []Box) float64 {
	if len(truth)+len(found) == 0 {
		return 1
	}
	return 2 * float64(countMatches(truth, found)) / float64(len(truth)+len(found))
}

// sureBoxes are the boxes of cars that count.
func sureBoxes(cars []Car) (boxes []Box) {
	for _, c := range cars {
		if c.Score > 0.5 {
			boxes = append(boxes, c.Box)
		}
	}
	return boxes
}
