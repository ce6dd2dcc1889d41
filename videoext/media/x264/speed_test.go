//go:build cgo && !noffmpeg

package x264_test

import (
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/media/x264"
)

// BenchmarkFrame is what a frame of 960 x 540 pixels costs on one thread on its way: decoded from a file, scaled by 0.8,
// encoded (segments of 15 at QP 36), decoded from the segment, enlarged and converted for a detector. It prints the
// time of each part, the shares of all, and the frames in a second of the whole.
func BenchmarkFrame(b *testing.B) {
	for _, preset := range []string{"veryfast", "medium"} {
		b.Run(preset, func(b *testing.B) { benchmarkFrame(b, preset) })
	}
}

func benchmarkFrame(b *testing.B, preset string) {
	const segment = 15
	clip := open(b, "dashcam_highway_960x540.mp4")
	defer clip.Close()
	var scaler, back ffmpeg.Scaler
	defer scaler.Close()
	defer back.Close()
	var took [5]time.Duration
	names := [5]string{"decode-file", "scale", "encode", "decode-segment", "convert"}
	bgr := make([]byte, 3*960*540)
	part := func(i int, f func() error) {
		began := time.Now()
		if err := f(); err != nil {
			b.Fatal(err)
		}
		took[i] += time.Since(began)
	}
	done := 0
	for b.Loop() {
		if done%(segment*14) == 0 { // the clip has 221 frames
			if err := clip.Seek(b.Context(), 0); err != nil {
				b.Fatal(err)
			}
		}
		small := make([]*media.Frame, segment)
		for i := range small {
			var f *media.Frame
			part(0, func() (err error) { f, err = clip.Next(b.Context()); return err })
			part(1, func() (err error) { small[i], err = scaler.Scale(f, 768, 432); return err })
		}
		var s *media.Segment
		part(2, func() (err error) {
			s, err = x264.Encoder{}.Encode(b.Context(), small, media.Settings{Rate: 25, Quality: media.QP(36), Preset: preset})
			return err
		})
		var decoded []*media.Frame
		part(3, func() (err error) { decoded, err = ffmpeg.Decode(b.Context(), s); return err })
		for _, f := range decoded {
			part(4, func() error { return back.BGR(f, 960, 540, bgr) })
		}
		done += segment
	}
	var all time.Duration
	for _, d := range took {
		all += d
	}
	for i, d := range took {
		b.ReportMetric(d.Seconds()*1000/float64(done), "ms/"+names[i])
		b.ReportMetric(100*d.Seconds()/all.Seconds(), "%/"+names[i])
	}
	b.ReportMetric(float64(done)/all.Seconds(), "frames/s")
	b.ReportMetric(0, "ns/op") // of a segment: said in parts
}
