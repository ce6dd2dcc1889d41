package ocr

import (
	"math"
	"testing"
)

// TestCropsAreRapidOCRs, straight, askew, turned and in the corner of a page.
func TestCropsAreRapidOCRs(t *testing.T) {
	page := readPixels(t, "page.png")
	for _, c := range readGolden(t).Crops {
		got, want := page.crop(quadOf(c.Box)), readPixels(t, c.File)
		if got.height != want.height || got.width != want.width {
			t.Errorf("%s has %d x %d pixels, want %d x %d", c.File, got.width, got.height, want.width, want.height)
			continue
		}
		off, most := 0.0, 0.0
		for i, v := range got.rgb {
			d := math.Abs(float64(v) - float64(want.rgb[i]))
			off, most = off+d, max(most, d)
		}
		if off /= float64(len(got.rgb)); off > 1 || most > 12 {
			t.Errorf("%s: colours are off by %.2f in the mean and by %v at most", c.File, off, most)
		}
	}
}

func TestTurns(t *testing.T) {
	p := &pixels{2, 3, []byte("aaabbbcccdddeeefff")}
	if left := p.turnedLeft(); left.height != 3 || left.width != 2 || string(left.rgb) != "cccfffbbbeeeaaaddd" {
		t.Errorf("to the left: %+v", left)
	}
	if p.turnOver(); string(p.rgb) != "fffeeedddcccbbbaaa" {
		t.Errorf("over: %s", p.rgb)
	}
}

// TestPageSizes are those of rapidocr 3.10.0, but that a page of few columns is not blown up without bound.
func TestPageSizes(t *testing.T) {
	for _, c := range []struct{ height, width, page, columns, top, detectHeight, detectWidth int }{
		{132, 709, 132, 709, 0, 736, 3968},
		{30, 700, 174, 700, 72, 736, 2944},
		{122, 1672, 418, 1672, 148, 736, 2944},
		{3000, 4000, 1504, 1984, 0, 1504, 1984},
		{736, 960, 736, 960, 0, 736, 960},
		{1, 1, 32, 32, 0, 736, 736},
		{20000, 30, 1984, 32, 0, 17088, 288},
	} {
		p := shapePage(c.height, c.width)
		h, w := p.detectedSize()
		if p.height != c.page || p.width != c.columns || p.top != c.top || h != c.detectHeight || w != c.detectWidth {
			t.Errorf("%d x %d: a page of %d x %d, %d above, seen as %d x %d; want %+v", c.height, c.width, p.height, p.width, p.top, h, w, c)
		}
		if h*w > 11*mostDetected/10 {
			t.Errorf("%d x %d: %d pixels are looked at", c.height, c.width, h*w)
		}
	}
}

// TestPlacesInThePicture: a corner of the page is one of the picture, whatever was added or resized.
func TestPlacesInThePicture(t *testing.T) {
	for _, size := range [][2]int{{30, 700}, {3000, 4000}, {736, 960}, {10, 10}} {
		p := shapePage(size[0], size[1])
		last := p.inPicture(point{float64(p.width), float64(p.height - p.top)})
		first := p.inPicture(point{0, float64(p.top)})
		if first != (point{}) || math.Abs(last.x-float64(size[1])) > 1e-9 || math.Abs(last.y-float64(size[0])) > 1e-9 {
			t.Errorf("%v: from %v to %v", size, first, last)
		}
	}
}

// TestInputsOfLines: colours go from -1 to 1, blue first, and what a line leaves free is 0.
func TestInputsOfLines(t *testing.T) {
	p := newPixels(48, 100)
	for i := 0; i < len(p.rgb); i += 3 {
		p.rgb[i] = 255
	}
	in := p.recognizeInput()
	values := floatsOf(in.data)
	if in.shape[3] != shortest || len(values) != 3*48*shortest {
		t.Fatalf("shape %v, %d values", in.shape, len(values))
	}
	for c, want := range []float32{-1, -1, 1} {
		row := values[(c*48+20)*shortest:]
		if row[50] != want || row[99] != want || row[100] != 0 || row[319] != 0 {
			t.Errorf("channel %d: %v, %v, then %v", c, row[50], row[99], row[100])
		}
	}
	if in := newPixels(1, 5000).recognizeInput(); in.shape[3] != longest {
		t.Errorf("a very long line: %v", in.shape)
	}
}
