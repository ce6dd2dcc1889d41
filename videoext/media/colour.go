package media

import (
	"fmt"
	"image"
)

// weights are the parts of red and blue in luma, Kr and Kb, of ITU-R BT.601 and BT.709.
var weights = [...]struct{ red, blue float64 }{BT601: {0.299, 0.114}, BT709: {0.2126, 0.0722}}

// decoding has a matrix's terms of red, green and blue for each value of a sample, in 16.16 fixed point.
type decoding struct{ luma, redCr, greenCr, greenCb, blueCb [256]int32 }

var decodings = [...]*decoding{BT601: newDecoding(BT601), BT709: newDecoding(BT709)}

func newDecoding(m Matrix) *decoding {
	w := weights[m]
	green := 1 - w.red - w.blue
	var d decoding
	for i := range 256 {
		luma, chroma := float64(i-16)*255/219, float64(i-128)*255/112
		fixed := func(v float64) int32 { return int32(v * (1 << 16)) }
		d.luma[i] = fixed(luma + 0.5) // rounded here, once
		d.redCr[i] = fixed(chroma * (1 - w.red))
		d.greenCr[i] = -fixed(chroma * (1 - w.red) * w.red / green)
		d.greenCb[i] = -fixed(chroma * (1 - w.blue) * w.blue / green)
		d.blueCb[i] = fixed(chroma * (1 - w.blue))
	}
	return &d
}

func clamp(v int32) byte {
	return byte(min(max(v>>16, 0), 255))
}

// unpackColours writes the colours of a frame to pixels of size bytes, at these places in each.
func (f *Frame) unpackColours(into []byte, size, red, green, blue int) {
	d := decodings[f.Matrix]
	for y := range f.Height {
		luma, cb, cr := f.Y[y*f.YStride:][:f.Width], f.Cb[y/2*f.CStride:], f.Cr[y/2*f.CStride:]
		row := into[y*f.Width*size:][:f.Width*size]
		for x, l := range luma {
			u, v := cb[x/2], cr[x/2]
			base, pixel := d.luma[l], row[x*size:][:size]
			pixel[red] = clamp(base + d.redCr[v])
			pixel[green] = clamp(base + d.greenCr[v] + d.greenCb[u])
			pixel[blue] = clamp(base + d.blueCb[u])
		}
	}
}

// BGR writes the frame's pixels as rows of blue, green and red in full range, 3*Width*Height bytes, as inputs of
// detectors have them (NHWC). A sample of chroma is that of its four pixels.
func (f *Frame) BGR(into []byte) error {
	if want := 3 * f.Width * f.Height; len(into) != want {
		return fmt.Errorf("a frame of %d x %d pixels has %d bytes of BGR, and there is room for %d", f.Width, f.Height, want, len(into))
	}
	f.unpackColours(into, 3, 2, 1, 0)
	return nil
}

// RGBA is the frame as an image.
func (f *Frame) RGBA() *image.RGBA {
	m := image.NewRGBA(image.Rect(0, 0, f.Width, f.Height))
	f.unpackColours(m.Pix, 4, 0, 1, 2)
	for i := 3; i < len(m.Pix); i += 4 {
		m.Pix[i] = 255
	}
	return m
}

// FromRGBA makes a frame of an image, without looking at transparency; a sample of chroma is the mean of its pixels.
func FromRGBA(m *image.RGBA, matrix Matrix) *Frame {
	f := NewFrame(m.Rect.Dx(), m.Rect.Dy())
	f.Matrix = matrix
	w := weights[matrix]
	for y := 0; y < f.Height; y += 2 {
		for x := 0; x < f.Width; x += 2 {
			var red, blue, luma, n float64
			for dy := range min(2, f.Height-y) {
				for dx := range min(2, f.Width-x) {
					p := m.Pix[(y+dy)*m.Stride+(x+dx)*4:][:3]
					r, g, b := float64(p[0]), float64(p[1]), float64(p[2])
					l := w.red*r + (1-w.red-w.blue)*g + w.blue*b
					f.Y[(y+dy)*f.YStride+x+dx] = byte(16 + l*219/255 + 0.5)
					red, blue, luma, n = red+r, blue+b, luma+l, n+1
				}
			}
			c := y/2*f.CStride + x/2
			f.Cb[c] = byte(128 + (blue-luma)/n/(1-w.blue)*112/255 + 0.5)
			f.Cr[c] = byte(128 + (red-luma)/n/(1-w.red)*112/255 + 0.5)
		}
	}
	return f
}
