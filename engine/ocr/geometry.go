package ocr

import (
	"cmp"
	"math"
	"slices"
)

// point is a place in a page.
type point struct{ x, y float64 }

func (p point) minus(q point) point   { return point{p.x - q.x, p.y - q.y} }
func (p point) cross(q point) float64 { return p.x*q.y - p.y*q.x }
func (p point) dot(q point) float64   { return p.x*q.x + p.y*q.y }
func (p point) length() float64       { return math.Hypot(p.x, p.y) }
func (p point) times(f float64) point { return point{p.x * f, p.y * f} }
func (p point) plus(q point) point    { return point{p.x + q.x, p.y + q.y} }

// quad is a quadrangle from its upper left corner on, clockwise as one looks at it.
type quad [4]point

// hull is the least convex polygon around points, which it sorts.
func hull(points []point) []point {
	slices.SortFunc(points, func(a, b point) int { return cmp.Or(cmp.Compare(a.x, b.x), cmp.Compare(a.y, b.y)) })
	points = slices.Compact(points)
	if len(points) < 3 {
		return points
	}
	out := make([]point, 0, len(points)+1)
	chain := func(points func(yield func(int, point) bool)) {
		from := len(out)
		for _, p := range points {
			for len(out) >= from+2 && out[len(out)-1].minus(out[len(out)-2]).cross(p.minus(out[len(out)-2])) <= 0 {
				out = out[:len(out)-1]
			}
			out = append(out, p)
		}
		out = out[:len(out)-1]
	}
	chain(slices.All(points))
	chain(slices.Backward(points))
	return out
}

// arcError is how far in pixels a round corner's steps may be from the round.
const arcError = 0.25

// grow is what is nearer to a convex polygon of hull than some distance, its corners round, in steps of whole pixels: as the library
// Clipper has it.
func grow(polygon []point, distance float64) (grown []point) {
	add := func(p, normal point) {
		grown = append(grown, point{math.Round(p.x + normal.x*distance), math.Round(p.y + normal.y*distance)})
	}
	circle := min(math.Pi/math.Acos(1-min(arcError, distance/4)/distance), math.Pi*distance) // in steps
	sin, cos := math.Sincos(2 * math.Pi / circle)
	n := len(polygon)
	for i, p := range polygon {
		before, after := outward(polygon[(i+n-1)%n], p), outward(p, polygon[(i+1)%n])
		if turn := before.cross(after); math.Abs(turn*distance) < 1 && before.dot(after) > 0 {
			add(p, before)
			continue
		}
		angle := math.Atan2(before.cross(after), before.dot(after))
		normal := before
		for range max(1, int(math.Round(circle*math.Abs(angle)/(2*math.Pi)))) {
			add(p, normal)
			normal = point{normal.x*cos - normal.y*sin, normal.x*sin + normal.y*cos}
		}
		add(p, after)
	}
	return grown
}

// outward is the direction, of length 1, away from a polygon of hull at the side from p to q.
func outward(p, q point) point {
	side := q.minus(p)
	return point{side.y, -side.x}.times(1 / side.length())
}

// rectangle is one that may be turned.
type rectangle struct {
	along         point // a direction, of length 1, of the sides that are length long
	from          point // the corner with the least along both directions
	length, width float64
}

// smallestRectangle is the one of least area around a convex polygon: it has a side of the polygon's.
func smallestRectangle(polygon []point) rectangle {
	var best rectangle
	area := math.Inf(1)
	for i, p := range polygon {
		side := polygon[(i+1)%len(polygon)].minus(p)
		if side == (point{}) {
			if len(polygon) > 1 {
				continue
			}
			side = point{1, 0}
		}
		r := rectangleAlong(polygon, side.times(1/side.length()))
		if a := r.length * r.width; a < area {
			best, area = r, a
		}
	}
	return best
}

// rectangleAlong is the smallest one in a direction.
func rectangleAlong(polygon []point, along point) rectangle {
	across := point{-along.y, along.x}
	low, high := point{math.Inf(1), math.Inf(1)}, point{math.Inf(-1), math.Inf(-1)}
	for _, p := range polygon {
		a, b := p.dot(along), p.dot(across)
		low, high = point{min(low.x, a), min(low.y, b)}, point{max(high.x, a), max(high.y, b)}
	}
	return rectangle{along: along, from: along.times(low.x).plus(across.times(low.y)), length: high.x - low.x, width: high.y - low.y}
}

// corners are those of r.
func (r *rectangle) corners() quad {
	a, b := r.along.times(r.length), point{-r.along.y, r.along.x}.times(r.width)
	return clockwise(quad{r.from, r.from.plus(a), r.from.plus(a).plus(b), r.from.plus(b)})
}

// clockwise orders corners: of the two on the left the upper one is the first and the lower one the last.
func clockwise(q quad) quad {
	slices.SortStableFunc(q[:], func(a, b point) int { return cmp.Compare(a.x, b.x) })
	if q[0].y > q[1].y {
		q[0], q[1] = q[1], q[0]
	}
	if q[2].y > q[3].y {
		q[2], q[3] = q[3], q[2]
	}
	return quad{q[0], q[2], q[3], q[1]}
}
