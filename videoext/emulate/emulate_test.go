package emulate

import (
	"context"
	"image"
	"math"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/accuracy"
	"github.com/prefillonly/prefillonly/videoext/link"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/media/x264"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/methods"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

func clock() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// codec is the real one, in this process.
type codec struct{ scaler ffmpeg.Scaler }

func (c *codec) Encode(frames []*media.Frame, s media.Settings) (coded Coded, err error) {
	before := clock()
	width, height := s.Size(frames[0].Width, frames[0].Height)
	scaled := make([]*media.Frame, len(frames))
	for i, f := range frames {
		if scaled[i], err = c.Scale(f, width, height); err != nil {
			return coded, err
		}
	}
	if coded.Segment, err = (x264.Encoder{}).Encode(context.Background(), scaled, s); err != nil {
		return coded, err
	}
	coded.Took = clock() - before
	file, err := ffmpeg.MP4(coded.Segment)
	coded.Container = len(file)
	return coded, err
}

func (c *codec) Decode(s *media.Segment) ([]*media.Frame, error) {
	return ffmpeg.Decode(context.Background(), s)
}

func (c *codec) Scale(f *media.Frame, width, height int) (*media.Frame, error) {
	if f.Width == width && f.Height == height {
		return f, nil
	}
	return c.scaler.Scale(f, width, height)
}

const (
	width, height = 320, 192
	side          = 28 // of things
)

// scene draws bright things with a fine pattern that move over noise.
func scene(frames int) *Clip {
	r := rand.New(rand.NewPCG(1, 2))
	clip := &Clip{Name: "scene", Rate: 10, Bytes: 100_000}
	noise := make([]byte, 4096)
	for i := range noise {
		noise[i] = byte(50 + r.IntN(30))
	}
	for n := range frames {
		f := media.NewFrame(width, height)
		f.Index = n
		for i := range f.Y {
			f.Y[i] = noise[(i+i/width*37)%len(noise)]
		}
		for i := range f.Cb {
			f.Cb[i], f.Cr[i] = 128, 128
		}
		for thing := range 4 {
			x0, y0 := 20+70*thing+2*n, 20+40*(thing%3)+n
			for y := y0; y < y0+side; y++ {
				for x := x0; x < x0+side; x++ {
					f.Y[y*f.YStride+x] = byte(170 + 20*((x/2+y/2)%2))
				}
			}
		}
		clip.Frames = append(clip.Frames, f)
	}
	return clip
}

// eye finds bright things; how sure it is depends on whether it sees their pattern.
type eye struct{ looked int }

func (e *eye) Infer(f *media.Frame) (found videoext.Findings, err error) {
	e.looked++
	bright := func(x, y int) bool {
		return x >= 0 && y >= 0 && x < f.Width && y < f.Height && f.Y[y*f.YStride+x] > 125
	}
	seen := make([]bool, f.Width*f.Height)
	for y := range f.Height {
		for x := range f.Width {
			if seen[y*f.Width+x] || !bright(x, y) {
				continue
			}
			box, todo := image.Rect(x, y, x+1, y+1), []image.Point{{X: x, Y: y}}
			for len(todo) > 0 {
				p := todo[len(todo)-1]
				todo = todo[:len(todo)-1]
				if !bright(p.X, p.Y) || seen[p.Y*f.Width+p.X] {
					continue
				}
				seen[p.Y*f.Width+p.X] = true
				box = box.Union(image.Rect(p.X, p.Y, p.X+1, p.Y+1))
				todo = append(todo, image.Pt(p.X+1, p.Y), image.Pt(p.X-1, p.Y), image.Pt(p.X, p.Y+1), image.Pt(p.X, p.Y-1))
			}
			if box.Dx() < 8 || box.Dy() < 8 {
				continue
			}
			w, h := float32(f.Width), float32(f.Height)
			region := videoext.Region{X0: float32(box.Min.X) / w, Y0: float32(box.Min.Y) / h, X1: float32(box.Max.X) / w, Y1: float32(box.Max.Y) / h}
			score := float32(min(contrast(f, box.Inset(4))/10, 1))
			found.Detections = append(found.Detections, videoext.Detection{Region: region, Score: score})
			found.Proposals = append(found.Proposals, videoext.Proposal{Region: region, Objectness: 0.9})
		}
	}
	return found, nil
}

// contrast is the standard deviation of luma.
func contrast(f *media.Frame, r image.Rectangle) float64 {
	var sum, squares, n float64
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			v := float64(f.Y[y*f.YStride+x])
			sum, squares, n = sum+v, squares+v*v, n+1
		}
	}
	return math.Sqrt(squares/n - sum/n*sum/n)
}

func newLab(t *testing.T, clip *Clip) (*Lab, *eye) {
	t.Helper()
	if _, err := (x264.Encoder{}).Encode(context.Background(), clip.Frames[:1], media.Settings{Rate: 1, Quality: media.QP(20)}); err != nil {
		t.Skip(err)
	}
	if _, err := new(ffmpeg.Scaler).Scale(clip.Frames[0], 64, 64); err != nil {
		t.Skip(err)
	}
	e := &eye{}
	return NewLab(Tools{Codec: &codec{}, Server: e, Clock: clock}, clip), e
}

func run1(t *testing.T, l *Lab, m method.Method, rate float64) *Outcome {
	t.Helper()
	out, err := l.Run(m, link.New(link.Constant(rate), 0, 100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDDSSeesMore holds the whole of it together: what low quality hides, DDS finds by its second stream, for fewer bytes than high quality
// takes for all.
func TestDDSSeesMore(t *testing.T) {
	lab, e := newLab(t, scene(20))
	truth, err := lab.Truth()
	if err != nil {
		t.Fatal(err)
	}
	rule := accuracy.DDS()
	at := func(qp int) method.Method { return plain(qp) }
	fine, coarse := run1(t, lab, at(20), 1e6), run1(t, lab, at(46), 1e6)
	c := methods.PaperDDS()
	c.Frames, c.Low, c.High = 10, videoext.Quality{QP: 46, Scale: 1}, videoext.Quality{QP: 20, Scale: 1}
	var outs []*Outcome
	for _, outside := range []int{51, 0} {
		c.Outside = outside
		looked := e.looked
		out := run1(t, lab, c.New(), 1e6)
		if e.looked-looked != 20 {
			t.Errorf("%d frames are looked at, want those of stream B: those of stream A were before", e.looked-looked)
		}
		outs = append(outs, out)
		if f1 := rule.F1(truth, out.Found); f1 < 0.95 || out.NAL >= fine.NAL || out.NAL <= coarse.NAL {
			t.Errorf("outside %d: F1 %v for %d bytes; fine %d, coarse %d", outside, f1, out.NAL, fine.NAL, coarse.NAL)
		}
	}
	if f1 := rule.F1(truth, fine.Found); f1 != 1 {
		t.Errorf("in high quality F1 is %v", f1)
	}
	if f1 := rule.F1(truth, coarse.Found); f1 > 0.3 {
		t.Errorf("in low quality F1 is %v: there is nothing to gain", f1)
	}
	again := run1(t, lab, c.New(), 1e6)
	if again.NAL != outs[1].NAL || again.Delay != outs[1].Delay {
		t.Errorf("a second run differs: %+v, %+v", again, outs[1])
	}
	for _, out := range append(outs, fine, coarse) {
		if out.Container <= out.NAL || out.CameraTime <= 0 || out.ServerTime <= 0 || len(out.Found) != 20 {
			t.Errorf("the outcome is %+v", out)
		}
	}
}

// TestDelay holds that the delay is what frames wait for their segment, and what the link and the work take.
func TestDelay(t *testing.T) {
	lab, _ := newLab(t, scene(20))
	m := plain(20)
	quick, slow := run1(t, lab, m, 1e9), run1(t, lab, m, 40_000)
	work := (quick.CameraTime + quick.ServerTime) / 2
	if want := 550*time.Millisecond + 50*time.Millisecond + work; (quick.Delay - want).Abs() > work/2+time.Millisecond {
		t.Errorf("the delay is %v, want about %v", quick.Delay, want)
	}
	if sent := time.Duration(float64(slow.Container) / 40_000 / 2 * float64(time.Second)); slow.Delay-quick.Delay < sent*9/10 {
		t.Errorf("on a slow link the delay is %v, on a quick one %v; half of it takes %v", slow.Delay, quick.Delay, sent)
	}
	if quick.Inferences != 20 || quick.Encodes != 2 || quick.Gradients != 0 {
		t.Errorf("of 20 frames in 2 segments %d were looked at, in %d that were encoded, with %d gradients", quick.Inferences, quick.Encodes, quick.Gradients)
	}
	down := run1(t, lab, m, 0) // nothing arrives
	if rule := accuracy.DDS(); len(down.Found) != 20 || rule.F1(quick.Found, down.Found) != 0 {
		t.Errorf("without a link: %+v", down)
	}
}

// TestTools holds that a method says what it needs that is not there.
func TestTools(t *testing.T) {
	lab, _ := newLab(t, scene(2))
	for _, action := range []method.CameraAction{method.Detect{Frames: []int{0}}, method.Measure{}, method.Track{Frames: []int{0}}} {
		m := method.Method{Name: "asks", Setting: "once", Frames: 2, New: func() (method.Camera, method.Server) {
			return asks{action}, &method.OneStream{How: method.Plain{}}
		}}
		if _, err := lab.Run(m, link.New(link.Constant(1e6), 0, 0)); err == nil {
			t.Errorf("%T is carried out without tools", action)
		}
	}
}

// asks is a camera's side that asks for one thing.
type asks struct{ action method.CameraAction }

func (a asks) Step(_ time.Duration, event method.CameraEvent) []method.CameraAction {
	if _, ok := event.(method.Captured); ok {
		return []method.CameraAction{a.action}
	}
	return nil
}

// plain is H.264 of a fixed quantiser.
func plain(qp int) method.Method {
	return methods.Plain{Common: methods.UsualCommon(), Quality: videoext.Quality{QP: qp, Scale: 1}}.New()
}

// TestEnlargingTakesTime: what the network takes that enlarges is the server's time, and is waited for.
func TestEnlargingTakesTime(t *testing.T) {
	lab, e := newLab(t, scene(4))
	var spent time.Duration
	c := &codec{}
	lab = NewLab(Tools{Codec: c, Server: e, Clock: func() time.Duration { return spent }, Resolve: func(f *media.Frame, factor int) (*media.Frame, error) {
		spent += time.Second
		return c.Scale(f, f.Width*factor, f.Height*factor)
	}}, lab.clip)
	small := methods.DefaultCloudSeg()
	small.Frames = 4
	out := run1(t, lab, small.New(), 1e9)
	if out.ServerTime != 4*time.Second || out.Delay < 4*time.Second {
		t.Errorf("4 frames of a second each take the server %v, and come after %v", out.ServerTime, out.Delay)
	}
}

// TestShown holds that what is kept of a frame is as that of the whole frame, scaled, and the rest black, so that neither gets into the other.
func TestShown(t *testing.T) {
	c := &codec{}
	defer c.scaler.Close()
	lab := NewLab(Tools{Codec: c}, scene(3))
	kept := videoext.Region{X0: 0.25, Y0: 0.25, X1: 0.75, Y1: 0.5}
	a := &method.Encode{Frames: []int{1}, Kept: [][]videoext.Region{{kept}}, Settings: media.Settings{Width: width * 4 / 5, Height: height * 4 / 5}}
	got, err := lab.shownFrames(1, a)
	if err != nil {
		t.Fatal(err)
	}
	want, err := c.Scale(lab.clip.Frames[2], a.Settings.Width, a.Settings.Height)
	if err != nil {
		t.Fatal(err)
	}
	inside := kept.Pixels(want.Width, want.Height)
	for y := range want.Height {
		for x := range want.Width {
			luma := byte(16)
			if (image.Point{X: x, Y: y}).In(inside) {
				luma = want.Y[y*want.YStride+x]
			}
			if got[0].Y[y*got[0].YStride+x] != luma {
				t.Fatalf("at %d, %d it is %d, want %d", x, y, got[0].Y[y*got[0].YStride+x], luma)
			}
		}
	}
}

// flat has a gradient that is the same everywhere.
type flat struct{}

func (flat) Gradient(f *media.Frame) (*oneadapt.Map, error) {
	m := oneadapt.NewMap(4, 3)
	for i := range m.Values {
		m.Values[i] = 1
	}
	return m, nil
}

// TestGradientsWait: one that waits holds up the next, which is then of a later segment.
func TestGradientsWait(t *testing.T) {
	settings := methods.UsualOneAdapt()
	settings.Frames, settings.Preset = 2, "repo"
	c, err := settings.Config()
	if err != nil {
		t.Fatal(err)
	}
	l, _ := newLab(t, scene(16))
	l.tools.Gradient = flat{}
	for wait, want := range map[time.Duration]int{0: 8, 300 * time.Millisecond: 4, time.Hour: 1} {
		l.tools.GradientWait = wait
		if out := run1(t, l, c.New(), 1e9); out.Gradients != want {
			t.Errorf("%d gradients that wait %v, want %d", out.Gradients, wait, want)
		}
	}
}
