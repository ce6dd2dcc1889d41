package ocr

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/engine/images"
)

// golden is what tools/golden/ocr_golden.py has written.
type golden struct {
	Maps []struct {
		File          string
		Height, Width int
		Boxes         [][4][2]float64
	}
	Crops []struct {
		File string
		Box  [4][2]float64
	}
}

func readGolden(t *testing.T) (g golden) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "golden.json"))
	if err == nil {
		err = json.Unmarshal(text, &g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// readPixels are those of a picture of the golden files.
func readPixels(t *testing.T, file string) *pixels {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	picture, err := images.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	p := &page{pixels: &pixels{height: picture.Height, width: picture.Width}}
	p.inner.height, p.inner.width = picture.Height, picture.Width
	if err := p.fill(picture); err != nil {
		t.Fatal(err)
	}
	return p.pixels
}

func quadOf(corners [4][2]float64) (q quad) {
	for i, c := range corners {
		q[i] = point{c[0], c[1]}
	}
	return q
}

// TestBoxesAreRapidOCRs: of drawn maps there are as many boxes in the same order, whose corners are off by one pixel of the map at most.
func TestBoxesAreRapidOCRs(t *testing.T) {
	for _, c := range readGolden(t).Maps {
		picture := readPixels(t, c.File)
		m := likelihood{height: picture.height, width: picture.width, values: make([]float32, picture.height*picture.width)}
		for i := range m.values {
			m.values[i] = float32(picture.rgb[3*i]) / 255
		}
		got := m.findBoxes(c.Height, c.Width)
		if len(got) != len(c.Boxes) {
			t.Errorf("%s: %d boxes, want %d: %v and %v", c.File, len(got), len(c.Boxes), got, c.Boxes)
			continue
		}
		for i, want := range c.Boxes {
			for k, corner := range quadOf(want) {
				off := got[i][k].minus(corner)
				if math.Abs(off.x)*float64(m.width)/float64(c.Width) > 1 || math.Abs(off.y)*float64(m.height)/float64(c.Height) > 1 {
					t.Errorf("%s, box %d: %v, want %v", c.File, i, got[i], want)
					break
				}
			}
		}
	}
}

// flood are the regions of a map by going from pixel to pixel.
func flood(m *likelihood) map[[2]int]int {
	marked := map[[2]int]int{}
	for y := range m.height {
		for x := range m.width {
			for _, d := range [][2]int{{0, 0}, {1, 0}, {0, 1}, {1, 1}} {
				if a, b := x-d[0], y-d[1]; a >= 0 && b >= 0 && m.values[b*m.width+a] > textLikely {
					marked[[2]int{x, y}] = 0
				}
			}
		}
	}
	n := 0
	var visit func(at [2]int)
	visit = func(at [2]int) {
		if region, is := marked[at]; !is || region != 0 {
			return
		}
		marked[at] = n
		for dy := -1; dy <= 1; dy++ {
			for dx := -1; dx <= 1; dx++ {
				visit([2]int{at[0] + dx, at[1] + dy})
			}
		}
	}
	for at, region := range marked {
		if region == 0 {
			n++
			visit(at)
		}
	}
	return marked
}

func TestRegionsAreThoseOfAFlood(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		m := likelihood{height: 1 + random.IntN(12), width: 1 + random.IntN(12)}
		m.values = make([]float32, m.height*m.width)
		for i := range m.values {
			if random.IntN(5) == 0 {
				m.values[i] = 1
			}
		}
		want, pixels := flood(&m), 0
		names := map[int]int{}
		for i, region := range m.regions() {
			for _, s := range region {
				for x := s.from; x <= s.to; x++ {
					pixels++
					of := want[[2]int{x, s.row}]
					if of == 0 || names[of] != 0 && names[of] != i+1 {
						t.Fatalf("%v: pixel (%d, %d) is in region %d", m, x, s.row, i)
					}
					names[of] = i + 1
				}
			}
		}
		if pixels != len(want) || len(names) != len(m.regions()) {
			t.Fatalf("%v: %d pixels in %d regions, want %d", m, pixels, len(names), len(want))
		}
	}
}

func TestRegionsAreBounded(t *testing.T) {
	m := likelihood{height: 200, width: 200, values: make([]float32, 200*200)}
	for y := 0; y < m.height; y += 4 {
		for x := 0; x < m.width; x += 4 {
			m.values[y*m.width+x] = 1
		}
	}
	if n := len(m.regions()); n != maxBoxes {
		t.Errorf("%d regions, want %d", n, maxBoxes)
	}
}

// TestSmallestRectangle holds all points, and none that is turned otherwise is much smaller.
func TestSmallestRectangle(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	for range 300 {
		points := make([]point, 1+random.IntN(12))
		for i := range points {
			points[i] = point{float64(random.IntN(40)), float64(random.IntN(20))}
		}
		outline := hull(slices.Clone(points))
		r := smallestRectangle(outline)
		for _, p := range points {
			a, b := p.dot(r.along)-r.from.dot(r.along), p.minus(r.from).dot(point{-r.along.y, r.along.x})
			if a < -1e-9 || a > r.length+1e-9 || b < -1e-9 || b > r.width+1e-9 {
				t.Fatalf("%v: %v is not in %+v", points, p, r)
			}
		}
		for turn := 0.0; turn < math.Pi; turn += 0.01 {
			other := rectangleAlong(points, point{math.Cos(turn), math.Sin(turn)})
			if other.length*other.width < r.length*r.width-1e-6 {
				t.Fatalf("%v: %+v, and %+v is smaller", points, r, other)
			}
		}
	}
}

// TestGrow: what is added is as far away as was asked for, to a pixel, and lies all around.
func TestGrow(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	for range 300 {
		points := make([]point, 3+random.IntN(5))
		for i := range points {
			points[i] = point{float64(random.IntN(60)), float64(random.IntN(30))}
		}
		polygon, distance := hull(points), 0.5+10*random.Float64()
		if len(polygon) < 3 {
			continue
		}
		grown := grow(polygon, distance)
		for _, p := range grown {
			least := math.Inf(1)
			for i, a := range polygon {
				side := polygon[(i+1)%len(polygon)].minus(a)
				share := min(max(p.minus(a).dot(side)/side.dot(side), 0), 1)
				least = min(least, p.minus(a.plus(side.times(share))).length())
			}
			if math.Abs(least-distance) > 1 {
				t.Fatalf("%v grown by %v: %v is %v away", polygon, distance, p, least)
			}
		}
		for turn := 0.0; turn < 2*math.Pi; turn += 0.1 {
			along := point{math.Cos(turn), math.Sin(turn)}
			if r, was := rectangleAlong(grown, along), rectangleAlong(polygon, along); math.Abs(r.length-was.length-2*distance) > 2.5 {
				t.Fatalf("%v grown by %v along %v: from %v to %v", polygon, distance, along, was.length, r.length)
			}
		}
	}
}

// TestReadingOrder is that of a sort by rows, which a gap ends, and by places in them.
func TestReadingOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	for range 500 {
		boxes := make([]quad, random.IntN(9))
		for i := range boxes {
			boxes[i][0] = point{float64(random.IntN(50)), float64(random.IntN(60))}
		}
		row := func(q quad) (row int) { // how many gaps are above it
			var ys []float64
			for _, b := range boxes {
				ys = append(ys, b[0].y)
			}
			slices.Sort(ys)
			for i := 1; i < len(ys) && ys[i] <= q[0].y; i++ {
				if ys[i]-ys[i-1] >= sameRow {
					row++
				}
			}
			return row
		}
		got := inReadingOrder(slices.Clone(boxes))
		for i := 1; i < len(got); i++ {
			if a, b := row(got[i-1]), row(got[i]); a > b || a == b && got[i-1][0].x > got[i][0].x {
				t.Fatalf("%v became %v", boxes, got)
			}
		}
		if len(got) != len(boxes) {
			t.Fatalf("%d of %d boxes", len(got), len(boxes))
		}
	}
}

func TestCornersAreClockwise(t *testing.T) {
	want := quad{{0, 0}, {9, 1}, {8, 5}, {1, 4}}
	for i := range 4 {
		q := quad{want[i], want[(i+1)%4], want[(i+2)%4], want[(i+3)%4]}
		if got := clockwise(q); !reflect.DeepEqual(got, want) {
			t.Errorf("%v became %v", q, got)
		}
	}
}

// FuzzBoxes: no map makes boxes beyond the page, or none that are boxes.
func FuzzBoxes(f *testing.F) {
	f.Add([]byte{0, 255, 255, 255, 255, 255, 255, 255, 255}, uint8(3), uint8(200), uint8(9))
	f.Fuzz(func(t *testing.T, values []byte, width, height, wide uint8) {
		m := likelihood{width: int(width)%40 + 1}
		m.height = min(len(values)/m.width, 60)
		for _, v := range values[:m.height*m.width] {
			value := float32(v) / 255
			if v == 254 {
				value = float32(math.NaN())
			}
			m.values = append(m.values, value)
		}
		page := &pixels{int(height) + 1, int(wide) + 1, make([]byte, 3*(int(height)+1)*(int(wide)+1))}
		for _, box := range m.findBoxes(page.height, page.width) {
			for _, p := range box {
				if !(p.x >= 0 && p.y >= 0 && p.x < float64(page.width) && p.y < float64(page.height)) {
					t.Fatalf("%v in a page of %d x %d", box, page.width, page.height)
				}
			}
			page.crop(box).recognizeInput()
		}
	})
}
