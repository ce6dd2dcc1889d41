package ocr

import (
	"cmp"
	"math"
	"slices"
)

// How lines are found in a map of how likely each pixel is one of text.
const (
	textLikely  = 0.3  // a pixel is text from there on
	boxLikely   = 0.5  // the mean of a box
	clipped     = 1.6  // how much smaller the network draws lines than they are: their area by their outline times that
	leastShrunk = 3    // the shorter side of a box as the network draws it,
	leastGrown  = 5    // as it is,
	leastBox    = 3    // and in the page
	maxBoxes    = 1000 // of a picture
	sameRow     = 10   // pixels that lines may differ in height of those to their left
)

// likelihood is a map of so many rows.
type likelihood struct {
	height, width int
	values        []float32
}

// span is a run of a row's pixels, both ends included.
type span struct{ row, from, to int }

// findBoxes are the boxes of lines in a page of a size, in the order in which they are read.
func (m *likelihood) findBoxes(height, width int) []quad {
	var boxes []quad
	for _, region := range m.regions() {
		box, ok := m.boxOf(region)
		if !ok {
			continue
		}
		for i := range box {
			box[i].x = scaledTo(box[i].x, m.width, width)
			box[i].y = scaledTo(box[i].y, m.height, height)
		}
		box = clockwise(box)
		if int(box[0].minus(box[1]).length()) > leastBox && int(box[0].minus(box[3]).length()) > leastBox {
			boxes = append(boxes, box)
		}
	}
	return inReadingOrder(boxes)
}

// scaledTo is a place of a map of so many pixels as a whole one of a page of others.
func scaledTo(at float64, from, to int) float64 {
	return min(max(math.RoundToEven(at/float64(from)*float64(to)), 0), float64(to-1))
}

// boxOf is the box of a region of text, if it is one of a line.
func (m *likelihood) boxOf(region []span) (quad, bool) {
	outline := make([]point, 0, 2*len(region))
	for _, s := range region {
		outline = append(outline, point{float64(s.from), float64(s.row)}, point{float64(s.to), float64(s.row)})
	}
	drawn := smallestRectangle(hull(outline))
	if min(drawn.length, drawn.width) < leastShrunk {
		return quad{}, false
	}
	box := drawn.corners()
	if m.mean(box) < boxLikely {
		return quad{}, false
	}
	away := drawn.length * drawn.width * clipped / (2 * (drawn.length + drawn.width))
	for i := range box {
		box[i] = point{math.Trunc(box[i].x), math.Trunc(box[i].y)}
	}
	corners := hull(box[:])
	if len(corners) < 3 {
		return quad{}, false
	}
	grown := smallestRectangle(hull(grow(corners, away)))
	if min(grown.length, grown.width) < leastGrown {
		return quad{}, false
	}
	return grown.corners(), true
}

// mean is how likely the pixels within a box are text.
func (m *likelihood) mean(box quad) float64 {
	low, high := math.Inf(1), math.Inf(-1)
	for i := range box {
		box[i] = point{math.Trunc(box[i].x), math.Trunc(box[i].y)}
		low, high = min(low, box[i].y), max(high, box[i].y)
	}
	sum, n := 0.0, 0
	for y := max(int(low), 0); y <= min(int(high), m.height-1); y++ {
		from, to := box.across(float64(y))
		a, b := max(int(math.Round(from)), 0), min(int(math.Round(to)), m.width-1)
		for _, v := range m.values[y*m.width:][a:max(a, b+1)] {
			sum += float64(v)
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// across is where a convex quadrangle is on a row that it has.
func (q *quad) across(y float64) (from, to float64) {
	from, to = math.Inf(1), math.Inf(-1)
	for i, a := range q {
		b := q[(i+1)%4]
		if y < min(a.y, b.y) || y > max(a.y, b.y) {
			continue
		}
		for _, end := range []point{a, b} {
			x := end.x
			if a.y != b.y {
				x = a.x + (b.x-a.x)*(y-a.y)/(b.y-a.y)
			}
			from, to = min(from, x), max(to, x)
		}
	}
	return from, to
}

// regions are those of pixels of text that touch each other, at corners too, each as the spans of its rows, from the top on; there are
// maxBoxes at most. A pixel is of text if it, or its neighbour above, to the left or between these, is likely to be.
func (m *likelihood) regions() [][]span {
	var spans []span
	var sets []int // of spans: one that stands for all of its region
	root := func(i int) int {
		for sets[i] != i {
			sets[i] = sets[sets[i]]
			i = sets[i]
		}
		return i
	}
	marked := make([]bool, m.width)
	before := 0 // the first span of the row above
	for y := range m.height {
		row := len(spans)
		spans = m.appendSpans(spans, y, marked)
		above := before
		for i := row; i < len(spans); i++ {
			sets = append(sets, i)
			for above < row && spans[above].to < spans[i].from-1 {
				above++
			}
			for k := above; k < row && spans[k].from <= spans[i].to+1; k++ {
				a, b := root(k), root(i)
				sets[max(a, b)] = min(a, b)
			}
		}
		before = row
	}
	index := map[int]int{}
	var regions [][]span
	for i, s := range spans {
		at, known := index[root(i)]
		if !known {
			if len(regions) == maxBoxes {
				continue
			}
			at = len(regions)
			index[root(i)], regions = at, append(regions, nil)
		}
		regions[at] = append(regions[at], s)
	}
	return regions
}

// appendSpans appends those of row y. Marked is room for a row.
func (m *likelihood) appendSpans(spans []span, y int, marked []bool) []span {
	clear(marked)
	for row := max(y-1, 0); row <= y; row++ {
		for x, v := range m.values[row*m.width:][:m.width] {
			if v > textLikely {
				marked[x], marked[min(x+1, m.width-1)] = true, true
			}
		}
	}
	for x := 0; x < m.width; x++ {
		if !marked[x] {
			continue
		}
		from := x
		for x+1 < m.width && marked[x+1] {
			x++
		}
		spans = append(spans, span{y, from, x})
	}
	return spans
}

// inReadingOrder sorts boxes into rows from the top on, and these from the left.
func inReadingOrder(boxes []quad) []quad {
	slices.SortStableFunc(boxes, func(a, b quad) int { return cmp.Compare(a[0].y, b[0].y) })
	for from := 0; from < len(boxes); {
		to := from + 1
		for to < len(boxes) && boxes[to][0].y-boxes[to-1][0].y < sameRow {
			to++
		}
		slices.SortStableFunc(boxes[from:to], func(a, b quad) int { return cmp.Compare(a[0].x, b[0].x) })
		from = to
	}
	return boxes
}
