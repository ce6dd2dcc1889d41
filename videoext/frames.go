package videoext

import (
	"image"

	"github.com/prefillonly/prefillonly/videoext/media"
)

// Black is luma and chroma of black.
const (
	blackLuma   = 16
	blackChroma = 128
)

// Keep is a frame that is black but for regions.
func Keep(f *media.Frame, regions []Region) *media.Frame {
	black := media.NewFrame(f.Width, f.Height)
	black.Matrix, black.Index, black.Time = f.Matrix, f.Index, f.Time
	fillPlane(black.Y, blackLuma)
	fillPlane(black.Cb, blackChroma)
	fillPlane(black.Cr, blackChroma)
	Paste(black, f, regions)
	return black
}

func fillPlane(plane []byte, v byte) {
	for i := range plane {
		plane[i] = v
	}
}

// Paste copies regions of a frame to another one of the same size.
func Paste(to, from *media.Frame, regions []Region) {
	for _, region := range regions {
		r := region.Pixels(from.Width, from.Height)
		pastePlane(to.Y, to.YStride, from.Y, from.YStride, r)
		half := image.Rect(r.Min.X/2, r.Min.Y/2, (r.Max.X+1)/2, (r.Max.Y+1)/2)
		pastePlane(to.Cb, to.CStride, from.Cb, from.CStride, half)
		pastePlane(to.Cr, to.CStride, from.Cr, from.CStride, half)
	}
}

func pastePlane(to []byte, toStride int, from []byte, fromStride int, r image.Rectangle) {
	for y := r.Min.Y; y < r.Max.Y; y++ {
		copy(to[y*toStride+r.Min.X:y*toStride+r.Max.X], from[y*fromStride+r.Min.X:])
	}
}
