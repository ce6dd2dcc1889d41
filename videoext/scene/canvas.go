package scene

import (
	"image"
	"math"
)

// colour is red, green and blue, 0 to 255.
type colour [3]float64

func (c colour) scaleBrightness(f float64) colour { return colour{c[0] * f, c[1] * f, c[2] * f} }

// canvas is painted with shapes that are known by how far a point is outside of them (below 0: inside), in pixels.
type canvas struct{ *image.RGBA }

func newCanvas(width, height int) canvas {
	c := canvas{image.NewRGBA(image.Rect(0, 0, width, height))}
	for i := 3; i < len(c.Pix); i += 4 {
		c.Pix[i] = 255
	}
	return c
}

// paintShape paints a shape that is within the rectangle from x0, y0 to x1, y1.
func (c canvas) paintShape(x0, y0, x1, y1 float64, paint colour, outside func(x, y float64) float64) {
	r := image.Rect(int(x0)-1, int(y0)-1, int(math.Ceil(x1))+1, int(math.Ceil(y1))+1).Intersect(c.Rect)
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			cover := 0.5 - outside(float64(x)+0.5, float64(y)+0.5)
			if cover <= 0 {
				continue
			}
			cover = min(cover, 1)
			p := c.Pix[c.PixOffset(x, y):][:4]
			for k := range paint {
				p[k] = byte(float64(p[k])*(1-cover) + min(paint[k], 255)*cover)
			}
			p[3] = 255
		}
	}
}

// fillBox is a rectangle with round corners.
func (c canvas) fillBox(x0, y0, x1, y1, round float64, paint colour) {
	mx, my, hx, hy := (x0+x1)/2, (y0+y1)/2, (x1-x0)/2-round, (y1-y0)/2-round
	c.paintShape(x0, y0, x1, y1, paint, func(x, y float64) float64 {
		dx, dy := math.Abs(x-mx)-hx, math.Abs(y-my)-hy
		return math.Hypot(max(dx, 0), max(dy, 0)) + min(max(dx, dy), 0) - round
	})
}

// fillDisc is a circle; with a width above 0 its line alone.
func (c canvas) fillDisc(mx, my, radius, width float64, paint colour) {
	c.paintShape(mx-radius-width, my-radius-width, mx+radius+width, my+radius+width, paint, func(x, y float64) float64 {
		d := math.Hypot(x-mx, y-my) - radius
		if width > 0 {
			d = math.Abs(d) - width/2
		}
		return d
	})
}

// drawLine is one with round ends.
func (c canvas) drawLine(x0, y0, x1, y1, width float64, paint colour) {
	dx, dy := x1-x0, y1-y0
	length := max(dx*dx+dy*dy, 1e-9)
	c.paintShape(min(x0, x1)-width, min(y0, y1)-width, max(x0, x1)+width, max(y0, y1)+width, paint, func(x, y float64) float64 {
		along := min(max(((x-x0)*dx+(y-y0)*dy)/length, 0), 1)
		return math.Hypot(x-x0-along*dx, y-y0-along*dy) - width/2
	})
}

// fillTrapezoid stands on y1 from x0 to x1; its sides lean in by as much as they say on the left and the right.
func (c canvas) fillTrapezoid(x0, y0, x1, y1, left, right float64, paint colour) {
	height := y1 - y0
	c.paintShape(x0, y0, x1, y1, paint, func(x, y float64) float64 {
		up := (y1 - y) / height
		return max(y0-y, y-y1, (x0+left*up-x)*0.9, (x-(x1-right*up))*0.9)
	})
}
