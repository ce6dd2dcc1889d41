package motion

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
)

const width, height = 320, 240

// texture is a picture that is nowhere like itself.
func texture(seed uint64, w, h int) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	coarse := make([]float64, (w/8+2)*(h/8+2))
	for i := range coarse {
		coarse[i] = 30 + 195*r.Float64()
	}
	out := make([]byte, w*h)
	for y := range h {
		for x := range w {
			fx, fy := float64(x%8)/8, float64(y%8)/8
			at := func(dx, dy int) float64 { return coarse[(y/8+dy)*(w/8+2)+x/8+dx] }
			out[y*w+x] = byte((at(0, 0)*(1-fx)+at(1, 0)*fx)*(1-fy) + (at(0, 1)*(1-fx)+at(1, 1)*fx)*fy)
		}
	}
	return out
}

// scene is a frame with a square thing whose upper left corner and side are given, before a background.
func scene(x, y, side int) *media.Frame {
	f := media.NewFrame(width, height)
	copy(f.Y, texture(1, width, height))
	thing := texture(2, 64, 64)
	for dy := range side {
		for dx := range side {
			f.Y[(y+dy)*f.YStride+x+dx] = thing[dy*64/side*64+dx*64/side]
		}
	}
	return f
}

func region(x, y, side int) videoext.Region {
	return videoext.Region{X0: float32(x) / width, Y0: float32(y) / height, X1: float32(x+side) / width, Y1: float32(y+side) / height}
}

func TestTrackFollowsWhatMovesAndGrows(t *testing.T) {
	var to []*media.Frame
	var want []videoext.Region
	for i := 1; i <= 12; i++ {
		x, y, side := 60+9*i, 80-3*i, 40+i
		to = append(to, scene(x, y, side))
		want = append(want, region(x, y, side))
	}
	thing := videoext.Detection{Region: region(60, 80, 40), Class: 2, Score: 0.7}
	still := videoext.Detection{Region: region(200, 180, 40), Class: 5, Score: 0.6}
	got := Track(scene(60, 80, 40), []videoext.Detection{thing, still}, to)
	for i, found := range got {
		if len(found) != 2 || found[0].Class != 2 || found[0].Score != 0.7 {
			t.Fatalf("frame %d: %v", i, found)
		}
		if iou := found[0].IoU(want[i]); iou < 0.7 {
			t.Errorf("frame %d: it is at %v, and tracked at %v: IoU %.2f", i, want[i], found[0].Region, iou)
		}
		if iou := found[1].IoU(still.Region); iou < 0.9 {
			t.Errorf("frame %d: what stands still is tracked at %v: IoU %.2f", i, found[1].Region, iou)
		}
	}
}

func TestTrackLosesWhatIsGone(t *testing.T) {
	thing := videoext.Detection{Region: region(60, 80, 40)}
	gone := media.NewFrame(width, height)
	copy(gone.Y, texture(9, width, height))
	got := Track(scene(60, 80, 40), []videoext.Detection{thing}, []*media.Frame{scene(64, 80, 40), gone, scene(64, 80, 40)})
	if len(got) != 3 || len(got[0]) != 1 || len(got[1]) != 0 || len(got[2]) != 0 {
		t.Errorf("tracked %v", got)
	}
}

func TestTrackAtTheBorderAndOfNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		x, y := r.Float32(), r.Float32()
		d := videoext.Detection{Region: videoext.Region{X0: x, Y0: y, X1: x + (1-x)*r.Float32(), Y1: y + (1-y)*r.Float32()}}
		for _, found := range Track(scene(10, 10, 30), []videoext.Detection{d, {}}, []*media.Frame{scene(12, 10, 30)}) {
			for _, f := range found {
				if !(f.X0 >= 0 && f.X1 <= 1 && f.Y0 >= 0 && f.Y1 <= 1 && f.Area() > 0) {
					t.Errorf("%v is tracked to %v", d.Region, f.Region)
				}
			}
		}
	}
}

func TestDiffer(t *testing.T) {
	flat := func(side int) *media.Frame {
		f := media.NewFrame(width, height)
		for i := range f.Y {
			f.Y[i] = 50
		}
		for y := range side {
			for x := range side {
				f.Y[(40+y)*f.YStride+60+x] = 200
			}
		}
		for y := range side / 2 { // and a smaller one elsewhere
			for x := range side / 2 {
				f.Y[(180+y)*f.YStride+260+x] = 200
			}
		}
		return f
	}
	const all = width * height
	for feature, want := range map[method.Feature]float64{
		method.Pixel: (40*40 + 20*20.) / all, method.Area: 20 * 20. / (all / 4), method.Edge: (4*20*2 + 4*10*2.) / (all / 4),
	} {
		if got := Differ(feature, flat(0), flat(40)); math.Abs(got-want) > 0.1*want {
			t.Errorf("feature %d: %.5f, not %.5f", feature, got, want)
		}
		if got := Differ(feature, flat(40), flat(40)); got != 0 {
			t.Errorf("feature %d of the same frame: %g", feature, got)
		}
	}
	tiny := media.NewFrame(2, 2)
	for _, feature := range []method.Feature{method.Pixel, method.Area, method.Edge} {
		if got := Differ(feature, tiny, tiny); got != 0 {
			t.Errorf("feature %d of a tiny frame: %g", feature, got)
		}
	}
}

func BenchmarkDiffer(b *testing.B) {
	x, y := media.NewFrame(960, 540), media.NewFrame(960, 540)
	copy(y.Y, texture(3, 960, 540))
	for feature, name := range map[method.Feature]string{method.Pixel: "pixel", method.Area: "area", method.Edge: "edge"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Differ(feature, x, y)
			}
		})
	}
}

func BenchmarkTrack(b *testing.B) {
	from, to := scene(60, 80, 40), []*media.Frame{scene(64, 80, 40)}
	for b.Loop() {
		Track(from, []videoext.Detection{{Region: region(60, 80, 40)}}, to)
	}
}
