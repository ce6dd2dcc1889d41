package media

import (
	"fmt"
	"image"
	"math"
)

// PSNR is the peak signal-to-noise ratio in dB of the luma of frames to others, in one rectangle of all of them: of
// the mean squared error over all pixels. Equal ones have positive infinity.
func PSNR(a, b []*Frame, within image.Rectangle) (float64, error) {
	if len(a) != len(b) || len(a) == 0 {
		return 0, fmt.Errorf("%d frames are compared with %d", len(a), len(b))
	}
	var sum uint64
	for i := range a {
		if a[i].Width != b[i].Width || a[i].Height != b[i].Height {
			return 0, fmt.Errorf("a frame of %d x %d pixels is compared with one of %d x %d", a[i].Width, a[i].Height, b[i].Width, b[i].Height)
		}
		if within.Empty() || !within.In(image.Rect(0, 0, a[i].Width, a[i].Height)) {
			return 0, fmt.Errorf("%v is no part of a frame of %d x %d pixels", within, a[i].Width, a[i].Height)
		}
		sum += squaredError(a[i], b[i], within)
	}
	return 10 * math.Log10(255*255*float64(len(a)*within.Dx()*within.Dy())/float64(sum)), nil
}

func squaredError(a, b *Frame, r image.Rectangle) (sum uint64) {
	for y := r.Min.Y; y < r.Max.Y; y++ {
		p, q := a.Y[y*a.YStride:][r.Min.X:r.Max.X], b.Y[y*b.YStride:][r.Min.X:r.Max.X]
		for x, v := range p {
			d := int64(v) - int64(q[x])
			sum += uint64(d * d)
		}
	}
	return sum
}
