package ocr

import (
	"math"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/images"
)

// Sides of pages, in pixels: what is larger or smaller than that is resized before lines are looked for.
const (
	leastSide    = 30
	greatestSide = 2000
	multiple     = 32      // of the sides that networks take
	flattest     = 8       // width by height, above which a page gets black rows above and below
	finestSide   = 736     // the shorter one of what the detecting network sees has so many at least,
	mostDetected = 9 << 19 // but its pixels are no more than that
)

// Pixels are those of a part of a picture, in rows of red, green and blue.
type pixels struct {
	height, width int
	rgb           []byte
}

// newPixels are black.
func newPixels(height, width int) *pixels {
	return &pixels{height, width, make([]byte, 3*height*width)}
}

// at is a pixel; what is beyond the edges is as they are.
func (p *pixels) at(x, y int) []byte {
	x, y = min(max(x, 0), p.width-1), min(max(y, 0), p.height-1)
	return p.rgb[3*(y*p.width+x):][:3]
}

// page is a picture in the size in which lines are looked for.
type page struct {
	*pixels
	picture struct{ height, width int }
	inner   struct{ height, width int } // of the page, what the picture fills
	top     int                         // black rows above that
}

// shapePage is the page of a picture of a size, without its pixels.
func shapePage(height, width int) *page {
	p := &page{}
	p.picture.height, p.picture.width = height, width
	if most := max(height, width); most > greatestSide {
		height, width = scaled(height, width, greatestSide/float64(most))
	}
	if least := min(height, width); least < leastSide {
		height, width = scaled(height, width, leastSide/float64(least))
	}
	p.inner.height, p.inner.width = height, width
	if height <= leastSide || width > flattest*height {
		p.top = max(2*max(width/flattest, leastSide)-height, 0) / 2
	}
	p.pixels = &pixels{height: height + 2*p.top, width: width}
	return p
}

// scaled is a size times a factor, of sides that networks take.
func scaled(height, width int, factor float64) (int, int) {
	side := func(n int) int {
		return max(multiple, int(math.RoundToEven(math.Trunc(float64(n)*factor)/multiple))*multiple)
	}
	return side(height), side(width)
}

// bytes is what the page takes.
func (p *page) bytes() int64 { return int64(3 * p.height * p.width) }

// fill makes the pixels.
func (p *page) fill(from *images.Picture) error {
	to, err := images.NewTarget(engine.Uint8, []int{1, p.inner.height, p.inner.width, 3}, images.Options{})
	if err != nil {
		return err
	}
	p.pixels = newPixels(p.height, p.width)
	to.Write(p.rgb[3*p.top*p.width:][:3*p.inner.height*p.width], from)
	return nil
}

// detectedSize is that of the detecting network's input.
func (p *page) detectedSize() (height, width int) {
	factor := 1.0
	if least := min(p.height, p.width); least < finestSide {
		factor = finestSide / float64(least)
	}
	most := math.Sqrt(mostDetected / float64(p.height*p.width))
	return scaled(p.height, p.width, min(factor, most))
}

// inPicture is a point of the page in the picture's pixels.
func (p *page) inPicture(at point) point {
	x := at.x * float64(p.picture.width) / float64(p.inner.width)
	y := (at.y - float64(p.top)) * float64(p.picture.height) / float64(p.inner.height)
	return point{min(max(x, 0), float64(p.picture.width)), min(max(y, 0), float64(p.picture.height))}
}

// asInput is p resized to a height and a width, as networks take it: blue first, from -1 to 1. What of the whole width is beyond is 0.
func (p *pixels) asInput(height, width, whole int) []byte {
	to, err := images.NewTarget(engine.FP32, []int{1, 3, height, width}, images.Options{Mean: []float64{127.5}, Scale: []float64{127.5}, BGR: true})
	if err != nil {
		panic(err) // the shape is one of a picture
	}
	data := make([]byte, to.Bytes(height, width))
	to.Write(data, images.FromRGB(p.rgb, p.height, p.width))
	if whole == width {
		return data
	}
	out := make([]byte, 4*3*height*whole)
	for row := range 3 * height {
		copy(out[4*row*whole:], data[4*row*width:][:4*width])
	}
	return out
}
