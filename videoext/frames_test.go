package videoext

import (
	"bytes"
	"image"
	"testing"

	"github.com/prefillonly/prefillonly/videoext/media"
)

func TestKeepAndPaste(t *testing.T) {
	f := media.NewFrame(96, 64)
	for i := range f.Y {
		f.Y[i] = byte(i * i >> 5)
	}
	for i := range f.Cb {
		f.Cb[i], f.Cr[i] = byte(3*i), byte(5*i)
	}
	region := Region{X0: 0.25, Y0: 0.25, X1: 0.5, Y1: 0.5}
	black, inside := Keep(f, []Region{region}), region.Pixels(f.Width, f.Height)
	for y := range f.Height {
		for x := range f.Width {
			want := byte(blackLuma)
			if image.Pt(x, y).In(inside) {
				want = f.Y[y*f.YStride+x]
			}
			if got := black.Y[y*black.YStride+x]; got != want {
				t.Fatalf("pixel %d, %d is %d, want %d", x, y, got, want)
			}
		}
	}
	whole := Keep(f, []Region{Whole})
	if !bytes.Equal(whole.Y, f.Y) || !bytes.Equal(whole.Cb, f.Cb) || !bytes.Equal(whole.Cr, f.Cr) {
		t.Error("the whole of a frame is not the frame")
	}
}
