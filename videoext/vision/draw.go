package vision

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"

	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"
)

// Draw copies a picture with what was found in it, in the picture's own coordinates: boxes with their labels and
// scores, and the colours of a mask.
func Draw(picture image.Image, r *Result) *image.RGBA {
	b := picture.Bounds()
	to := image.NewRGBA(image.Rect(0, 0, b.Dx(), b.Dy()))
	draw.Draw(to, to.Bounds(), picture, b.Min, draw.Src)
	if r.Mask != nil {
		tintClasses(to, r.Mask)
	}
	thick := max(1, min(b.Dx(), b.Dy())/300)
	for i := len(r.Detections) - 1; i >= 0; i-- { // the best on top
		d := &r.Detections[i]
		c := classColour(d.Class)
		at := image.Rect(int(d.Box.X0), int(d.Box.Y0), int(d.Box.X1), int(d.Box.Y1))
		drawBoxEdges(to, at, c, thick)
		drawCaption(to, at, c, fmt.Sprintf("%s %.2f", d.Name(), d.Score))
	}
	return to
}

// classColour is a class's colour: neighbours in number are far apart on the wheel, by the golden ratio.
func classColour(class int) color.RGBA {
	const golden = 0.618034
	h := float64(class) * golden
	h = 6 * (h - float64(int(h)))
	part := func(x float64) uint8 { return uint8(60 + 195*min(max(x, 0), 1)) }
	return color.RGBA{part(max(2-h, h-4)), part(min(h, 4-h)), part(min(h-2, 6-h)), 255}
}

// drawBoxEdges draws the edges of a box.
func drawBoxEdges(to *image.RGBA, at image.Rectangle, c color.RGBA, thick int) {
	ink := image.NewUniform(c)
	for _, edge := range []image.Rectangle{
		{at.Min, image.Pt(at.Max.X, at.Min.Y+thick)},
		{image.Pt(at.Min.X, at.Max.Y-thick), at.Max},
		{at.Min, image.Pt(at.Min.X+thick, at.Max.Y)},
		{image.Pt(at.Max.X-thick, at.Min.Y), at.Max},
	} {
		draw.Draw(to, edge, ink, image.Point{}, draw.Src)
	}
}

// drawCaption writes above a box, or inside where there is no room.
func drawCaption(to *image.RGBA, at image.Rectangle, c color.RGBA, text string) {
	face := basicfont.Face7x13
	width, height := font.MeasureString(face, text).Ceil()+4, face.Height+2
	corner := image.Pt(max(0, min(at.Min.X, to.Bounds().Dx()-width)), at.Min.Y-height)
	if corner.Y < 0 {
		corner.Y = at.Min.Y
	}
	draw.Draw(to, image.Rectangle{corner, corner.Add(image.Pt(width, height))}, image.NewUniform(c), image.Point{}, draw.Src)
	pen := font.Drawer{Dst: to, Src: image.Black, Face: face, Dot: fixed.P(corner.X+2, corner.Y+face.Ascent+1)}
	pen.DrawString(text)
}

// tintClasses colours each pixel by its class, all but the first one, which is the background.
func tintClasses(to *image.RGBA, m *Mask) {
	w, h := to.Bounds().Dx(), to.Bounds().Dy()
	for y := range h {
		for x := range w {
			class := m.Class[y*m.Height/h*m.Width+x*m.Width/w]
			if class == 0 {
				continue
			}
			c, p := classColour(int(class)), to.Pix[to.PixOffset(x, y):]
			for i, v := range [...]uint8{c.R, c.G, c.B} {
				p[i] = uint8((int(p[i]) + int(v)) / 2)
			}
		}
	}
}
