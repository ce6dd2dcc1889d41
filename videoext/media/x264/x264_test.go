//go:build cgo && !noffmpeg

package x264_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/media/x264"
)

// open opens a clip of the shared data.
func open(t testing.TB, name string) *ffmpeg.Clip {
	t.Helper()
	dir := os.Getenv("PREFILLONLY_DATA")
	if dir == "" {
		dir = "../../../../shared/data"
	}
	name = filepath.Join(dir, "video", name)
	if _, err := os.Stat(name); err != nil {
		t.Skip("the clips of the shared data are not here (PREFILLONLY_DATA)")
	}
	clip, err := ffmpeg.Open(t.Context(), name, ffmpeg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return clip
}

// frames reads the first ones of a clip.
func frames(t testing.TB, name string, count int) []*media.Frame {
	t.Helper()
	clip := open(t, name)
	defer clip.Close()
	list := make([]*media.Frame, count)
	for i := range list {
		var err error
		if list[i], err = clip.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

const dashcam = "dashcam_highway_1280x720.mp4"

func encode(t testing.TB, list []*media.Frame, s media.Settings) *media.Segment {
	t.Helper()
	segment, err := x264.Encoder{}.Encode(t.Context(), list, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := segment.Check(); err != nil {
		t.Fatal(err)
	}
	return segment
}

func decode(t testing.TB, s *media.Segment) []*media.Frame {
	t.Helper()
	list, err := ffmpeg.Decode(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func psnr(t testing.TB, a, b []*media.Frame, r image.Rectangle) float64 {
	t.Helper()
	v, err := media.PSNR(a, b, r)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestMapIsExact: inside and outside of a region, a map's frames are as near to the source as frames of one constant
// quantiser are, which x264 is told in its own way.
func TestMapIsExact(t *testing.T) {
	source := frames(t, dashcam, 10)
	for _, c := range []struct {
		inside, outside uint8
		region, rest    image.Rectangle
		bframes         int
	}{
		{26, 36, image.Rect(0, 0, 640, 720), image.Rect(640, 0, 1280, 720), 0},
		{36, 26, image.Rect(0, 0, 640, 720), image.Rect(640, 0, 1280, 720), 0},
		{24, 36, image.Rect(320, 368, 960, 592), image.Rect(0, 0, 1280, 368), 0},
		{26, 36, image.Rect(0, 0, 640, 720), image.Rect(640, 0, 1280, 720), 2},
	} {
		t.Run(fmt.Sprintf("%d in %d, %d B", c.inside, c.outside, c.bframes), func(t *testing.T) {
			uniform := func(qp uint8) []*media.Frame {
				return decode(t, encode(t, source, media.Settings{Rate: 10, Quality: media.QP(qp), IPRatio: 1, PBRatio: 1, BFrames: c.bframes}))
			}
			m := media.NewQPMap(1280, 720, c.outside)
			m.Set(c.region, c.inside)
			mapped := decode(t, encode(t, source, media.Settings{Rate: 10, Quality: media.Maps{m}, BFrames: c.bframes}))
			fine, coarse := uniform(c.inside), uniform(c.outside)
			for _, part := range []struct {
				name    string
				r       image.Rectangle
				uniform []*media.Frame
			}{{"inside", c.region, fine}, {"outside", c.rest, coarse}} {
				got, want := psnr(t, mapped, source, part.r), psnr(t, part.uniform, source, part.r)
				t.Logf("%s: %.3f dB, uniform %.3f dB", part.name, got, want)
				if math.Abs(got-want) > 0.05 {
					t.Errorf("%s: %.3f dB, and %.3f dB with that quantiser alone", part.name, got, want)
				}
			}
		})
	}
}

// TestMapPerFrame: each frame gets its own map.
func TestMapPerFrame(t *testing.T) {
	source := frames(t, dashcam, 6)
	var maps media.Maps
	for i := range source {
		maps = append(maps, media.NewQPMap(1280, 720, uint8(24+12*(i%2))))
	}
	mapped := encode(t, source, media.Settings{Rate: 10, Quality: maps})
	for i := 2; i < len(source); i += 2 {
		if fine, coarse := len(mapped.Units[i].Data), len(mapped.Units[i+1].Data); fine < 3*coarse {
			t.Errorf("frame %d at 24 has %d bytes, the next at 36 %d", i, fine, coarse)
		}
	}
}

// TestBytesAsFFmpeg: as many bytes as ffmpeg's libx264 makes with the same parameters, but for x264's SEI.
func TestBytesAsFFmpeg(t *testing.T) {
	program, err := exec.LookPath("ffmpeg")
	if err != nil {
		t.Skip("the ffmpeg program is not here")
	}
	if testing.Short() {
		t.Skip("seven encodings by both take half a minute")
	}
	source := frames(t, dashcam, 15)
	var input bytes.Buffer
	for _, f := range source {
		input.Write(slices.Concat(f.Y, f.Cb, f.Cr))
	}
	for _, c := range []struct {
		s    media.Settings
		args string
	}{
		{media.Settings{Quality: media.QP(24)}, "-qp 24 -bf 0"},
		{media.Settings{Quality: media.QP(36)}, "-qp 36 -bf 0"},
		{media.Settings{Quality: media.QP(24), BFrames: 3}, "-qp 24"},
		{media.Settings{Quality: media.QP(36), BFrames: 3, BBias: 50}, "-qp 36 -x264-params b-bias=50"},
		{media.Settings{Quality: media.QP(30), BFrames: 3, IPRatio: 2, PBRatio: 0.9}, "-qp 30 -i_qfactor 0.5 -b_qfactor 0.9"},
		{media.Settings{Quality: media.CRF(28), Preset: "veryfast"}, "-crf 28 -preset veryfast -bf 0"},
		{media.Settings{Quality: media.QP(30), ChromaOffset: -4}, "-qp 30 -bf 0 -x264-params chroma-qp-offset=-4"},
	} {
		c.s.Rate = 25
		args := "-v error -f rawvideo -pix_fmt yuv420p -s 1280x720 -r 25 -i - -c:v libx264 -threads 1 -g 15 " + c.args + " -f h264 -"
		command := exec.Command(program, strings.Fields(args)...)
		command.Stdin = bytes.NewReader(input.Bytes())
		out, err := command.Output()
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		for _, n := range media.NALUnits(out) {
			if n.Type != 6 {
				want += len(n.Data)
			}
		}
		got := encode(t, source, c.s).NALBytes()
		t.Logf("%s: %d bytes, ffmpeg %d", c.args, got, want)
		if math.Abs(float64(got-want)) > 0.01*float64(want) {
			t.Errorf("%s: %d bytes, and ffmpeg's libx264 makes %d", c.args, got, want)
		}
	}
}

// TestSameBytes: an encoding depends on frames and settings alone.
func TestSameBytes(t *testing.T) {
	source := frames(t, dashcam, 6)
	m := media.NewQPMap(1280, 720, 40)
	m.Set(image.Rect(100, 100, 400, 300), 22)
	for _, threads := range []int{1, 2} {
		var before *media.Segment
		for range 3 {
			s, err := x264.Encoder{Threads: threads}.Encode(t.Context(), source, media.Settings{Rate: 25, Quality: media.Maps{m}, BFrames: 2})
			if err != nil {
				t.Fatal(err)
			}
			if before != nil && !slices.EqualFunc(s.Units, before.Units, func(a, b media.Unit) bool { return bytes.Equal(a.Data, b.Data) && a.Order == b.Order }) {
				t.Errorf("with %d threads the bytes differ", threads)
			}
			before = s
		}
	}
}

// TestFramesKeepTheirPlace: B frames are decoded in another order than that of time.
func TestFramesKeepTheirPlace(t *testing.T) {
	source := frames(t, "dashcam_highway_960x540.mp4", 12)
	s := encode(t, source, media.Settings{Rate: 25, Quality: media.QP(20), BFrames: 3})
	if slices.IsSortedFunc(s.Units, func(a, b media.Unit) int { return a.Order - b.Order }) {
		t.Fatal("there are no B frames")
	}
	for i, f := range decode(t, s) {
		if f.Index != source[i].Index || f.Time != source[i].Time {
			t.Errorf("frame %d is said to be %d at %v", i, f.Index, f.Time)
		}
		r := image.Rect(0, 0, f.Width, f.Height)
		if own, other := psnr(t, []*media.Frame{f}, source[i:i+1], r), psnr(t, []*media.Frame{f}, source[(i+1)%12:][:1], r); own < 38 || own < other+3 {
			t.Errorf("frame %d: %.1f dB to its source, %.1f dB to the next", i, own, other)
		}
	}
}

func TestUnfitFramesAreRefused(t *testing.T) {
	good := []*media.Frame{media.NewFrame(64, 48), media.NewFrame(64, 48)}
	short := media.NewFrame(64, 48)
	short.Cb = short.Cb[:3]
	for want, c := range map[string]struct {
		frames []*media.Frame
		s      media.Settings
	}{
		"0 frames":                   {nil, media.Settings{Rate: 1, Quality: media.QP(3)}},
		"scale them before":          {good, media.Settings{Rate: 1, Quality: media.QP(3), Width: 32}},
		"frame 1 has 32 x 32 pixels": {[]*media.Frame{good[0], media.NewFrame(32, 32)}, media.Settings{Rate: 1, Quality: media.QP(3)}},
		"must be even":               {[]*media.Frame{media.NewFrame(63, 48)}, media.Settings{Rate: 1, Quality: media.QP(3)}},
		"frame 1: plane Cb":          {[]*media.Frame{good[0], short}, media.Settings{Rate: 1, Quality: media.QP(3)}},
	} {
		if _, err := (x264.Encoder{}).Encode(t.Context(), c.frames, c.s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (x264.Encoder{}).Encode(ctx, good, media.Settings{Rate: 1, Quality: media.QP(3)}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ended: %v", err)
	}
}
