package camera

import (
	"image"
	"testing"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/method"
)

// TestPrepare holds that what is kept of a frame is as that of the whole frame, scaled, and the rest black, so that neither gets into the other.
func TestPrepare(t *testing.T) {
	f := media.NewFrame(320, 192)
	for i := range f.Y {
		f.Y[i] = byte(100 + i%100)
	}
	kept := videoext.Region{X0: 0.25, Y0: 0.25, X1: 0.75, Y1: 0.5}
	task := encodeTask{Encode: method.Encode{Kept: [][]videoext.Region{{kept}}}, frames: []*media.Frame{f}}
	settings := media.Settings{Width: 256, Height: 154}
	var scaler ffmpeg.Scaler
	defer scaler.Close()
	got, err := task.prepareFrames(&scaler, &settings)
	if err != nil {
		t.Fatal(err)
	}
	task.Kept = nil
	want, err := task.prepareFrames(&scaler, &settings)
	if err != nil {
		t.Fatal(err)
	}
	inside := kept.Pixels(256, 154)
	for y := range 154 {
		for x := range 256 {
			luma := byte(16)
			if (image.Point{X: x, Y: y}).In(inside) {
				luma = want[0].Y[y*want[0].YStride+x]
			}
			if got[0].Y[y*got[0].YStride+x] != luma {
				t.Fatalf("at %d, %d it is %d, want %d", x, y, got[0].Y[y*got[0].YStride+x], luma)
			}
		}
	}
}
