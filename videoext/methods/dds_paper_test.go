package methods

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
)

func square(x, y, size float32) videoext.Region {
	return videoext.Region{X0: x, Y0: y, X1: x + size, Y1: y + size}
}

// TestFigure32 is the example of figure 3.2: of nine regions three overlap with results, one is too large, and five are asked for.
func TestFigure32(t *testing.T) {
	var f videoext.Findings
	for i := range 3 {
		at := square(0.1+0.3*float32(i), 0.1, 0.1)
		f.Detections = append(f.Detections, videoext.Detection{Region: at, Score: 0.9})
		f.Proposals = append(f.Proposals, videoext.Proposal{Region: square(at.X0+0.02, at.Y0, 0.1), Objectness: 0.8})
	}
	f.Proposals = append(f.Proposals, videoext.Proposal{Region: square(0.3, 0.5, 0.3), Objectness: 0.9})
	var want []videoext.Region
	for i := range 5 {
		want = append(want, square(0.05+0.15*float32(i), 0.85, 0.1))
		f.Proposals = append(f.Proposals, videoext.Proposal{Region: want[i], Objectness: 0.5})
	}
	f.Proposals = append(f.Proposals, videoext.Proposal{Region: square(0.8, 0.5, 0.1), Objectness: 0.49})
	c := PaperDDS()
	if sure, regions := c.splitDetections(&f); len(sure) != 3 || !slices.Equal(regions, want) {
		t.Errorf("%d are sure, and %v are asked for; want %v", len(sure), regions, want)
	}
}

// TestWeak holds that the published code's settings ask for detections that are not sure.
func TestWeakDetections(t *testing.T) {
	f := videoext.Findings{Detections: []videoext.Detection{
		{Region: square(0.1, 0.1, 0.09), Score: 0.45}, {Region: square(0.5, 0.1, 0.2), Score: 0.45}, {Region: square(0.1, 0.5, 0.09), Score: 0.2},
	}}
	paper, repo := PaperDDS(), RepoDDS()
	if _, regions := paper.splitDetections(&f); regions != nil {
		t.Errorf("the paper's settings ask for %v", regions)
	}
	if _, regions := repo.splitDetections(&f); !slices.Equal(regions, []videoext.Region{f.Detections[0].Region}) {
		t.Errorf("the code's settings ask for %v", regions)
	}
}

// TestUnsureMask holds that regions cover the pixels with small margins, and few others.
func TestUnsureMask(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	c := PaperDDS()
	for n := range 200 {
		m := &videoext.Mask{Width: 1 + r.IntN(200), Height: 1 + r.IntN(200)}
		m.Class, m.Margin = make([]uint8, m.Width*m.Height), make([]uint8, m.Width*m.Height)
		columns, rows := min(maskGrid, m.Width), min(maskGrid, m.Height)
		unsure := make([]bool, columns*rows)
		for i := range unsure {
			unsure[i] = r.IntN(3) == 0
		}
		at := func(x, y int) int { // by the definition of a part: the last that begins at or before the pixel
			px, py := 0, 0
			for px+1 < columns && (px+1)*m.Width/columns <= x {
				px++
			}
			for py+1 < rows && (py+1)*m.Height/rows <= y {
				py++
			}
			return py*columns + px
		}
		for y := range m.Height {
			for x := range m.Width {
				if m.Margin[y*m.Width+x] = 200; unsure[at(x, y)] {
					m.Margin[y*m.Width+x] = 20
				}
			}
		}
		var covered float64
		for _, region := range c.unsureRegions(m) {
			covered += float64(region.Area())
		}
		want := 0
		for _, u := range unsure {
			if u {
				want++
			}
		}
		if got := covered * float64(columns*rows); math.Abs(got-float64(want)) > 0.01 {
			t.Fatalf("case %d, %d x %d: regions cover %v parts, want %d", n, m.Width, m.Height, got, want)
		}
	}
	if c.unsureRegions(&videoext.Mask{Width: 2, Height: 2, Class: make([]uint8, 4)}) != nil {
		t.Error("a mask without margins has unsure parts")
	}
}

// TestShown holds that what is shown in a black frame has whole macroblocks, and all that is asked for.
func TestShownRegions(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	c := newDDSCamera(TunedDDS())
	for range 1000 {
		const w, h = 768, 432
		x, y := r.Float32(), r.Float32()
		region := videoext.Region{X0: x, Y0: y, X1: min(x+r.Float32()/4, 1), Y1: min(y+r.Float32()/4, 1)}
		got := c.shownRegions([]videoext.Region{region}, w, h)[0].Pixels(w, h)
		if want := region.Pixels(w, h); !want.In(got) {
			t.Fatalf("%v is shown, and %v wanted", got, want)
		}
		const side = media.MacroblockSize
		if got.Min.X%side+got.Min.Y%side != 0 || got.Max.X%side != 0 && got.Max.X != w || got.Max.Y%side != 0 && got.Max.Y != h || got.Dx() > region.Pixels(w, h).Dx()+2*side {
			t.Fatalf("%v is shown for %v", got, region.Pixels(w, h))
		}
	}
}

// TestHold holds that a region is asked for in the frames near its own.
func TestHoldRegions(t *testing.T) {
	a, b := square(0, 0, 0.1), square(0.5, 0.5, 0.1)
	got := holdRegions([][]videoext.Region{{a}, nil, nil, {b}, {b}}, 1)
	for i, want := range [][]videoext.Region{{a}, {a}, {b}, {b}, {b}} {
		if !slices.Equal(got[i], want) {
			t.Errorf("frame %d: %v, want %v", i, got[i], want)
		}
	}
}

func adapting() *ddsController { return &ddsController{a: DefaultDDSAdapt(), qps: [2]int{40, 26}} }

// TestControllerFollows holds that bytes follow a bandwidth that changes, on a video that gets dearer, within a few segments; what stream B takes is known
// a segment later than what stream A does, and it is most of it.
func TestControllerFollows(t *testing.T) {
	c := adapting()
	r := rand.New(rand.NewPCG(5, 6))
	var before [2]int // QPs of the segment before
	for n := range method.Segment(120) {
		link, videos := method.Link{Bandwidth: 60_000}, [2]float64{15_000, 35_000}
		if n >= 40 {
			link.Bandwidth = 25_000
		}
		if n >= 80 {
			videos = [2]float64{30_000, 60_000}
		}
		take := func(stream method.Stream, qps [2]int) int {
			return int(videos[stream] * relativeBytes(qps[stream], c.qps[stream]) * (0.9 + 0.2*r.Float64()))
		}
		qps := c.nextQPs(n, 1500*time.Millisecond, link)
		a := take(method.A, qps)
		c.recordSentBytes(n, method.A, a)
		share := float64(a+take(method.B, qps)) / (1.5 * link.Bandwidth)
		if n > 0 {
			c.recordSentBytes(n-1, method.B, take(method.B, before))
		}
		before = qps
		if n%40 > 5 && (share > 1.15 || share < 0.6) {
			t.Errorf("segment %d takes %.2f of the bandwidth, by %v", n, share, qps)
		}
	}
}

// TestControllerBegins holds that one segment is enough to leave QPs that are far too dear, and that both streams have to be known for that.
func TestControllerBegins(t *testing.T) {
	c, slow := adapting(), method.Link{Bandwidth: 10_000}
	if qps := c.nextQPs(0, time.Second, slow); qps != c.qps {
		t.Errorf("it begins with %v", qps)
	}
	c.recordSentBytes(0, method.A, 9_000)
	if qps := c.nextQPs(1, time.Second, slow); qps != c.qps {
		t.Errorf("for stream A there is room, and it takes %v", qps)
	}
	c.recordSentBytes(0, method.B, 27_000)
	if qps := c.nextQPs(2, time.Second, slow); qps != [2]int{51, 39} {
		t.Errorf("36 kB are to become 9 kB, with stream A at the end of its range, by %v", qps)
	}
	c.recordSentBytes(2, method.B, 0) // as nothing is asked for
	if first := c.bases[method.B].bytes; !(first < 27_000) {
		t.Errorf("stream B has a base of %v bytes after a segment without one", first)
	}
}

func TestControllerBacklog(t *testing.T) {
	idle, jammed := adapting(), adapting()
	for n := range method.Segment(20) {
		for c, backlog := range map[*ddsController]int{idle: 0, jammed: 60_000} {
			link := method.Link{Bandwidth: 50_000, Backlog: backlog}
			qps := c.nextQPs(n, time.Second, link)
			c.recordSentBytes(n, method.A, int(20_000*relativeBytes(qps[method.A], 40)))
			c.recordSentBytes(n, method.B, int(30_000*relativeBytes(qps[method.B], 26)))
			if link.Backlog = 0; n == 19 && backlog > 0 && qps[method.A] <= idle.chooseQPs(time.Second, link)[method.A] {
				t.Errorf("with a backlog it picks %v", qps)
			}
		}
	}
}

func TestCheckDDS(t *testing.T) {
	for what, change := range map[string]func(*DDS){
		"QP": func(c *DDS) { c.Low.QP = 52 }, "scale": func(c *DDS) { c.High.Scale = 0 }, "frames": func(c *DDS) { c.Frames = 0 },
		"keep": func(c *DDS) { c.Keep = 0 }, "outside": func(c *DDS) { c.Outside = 60 }, "hold": func(c *DDS) { c.Hold = -1 },
		"patience": func(c *DDS) { c.Patience = 0 }, "variances": func(c *DDS) { c.Adapt = &DDSAdapt{} },
		"coarser": func(c *DDS) { c.Adapt = DefaultDDSAdapt(); c.Adapt.Coarser = 60 },
	} {
		c := PaperDDS()
		change(&c)
		if c.Check() == nil {
			t.Errorf("%s: %+v is taken", what, c)
		}
	}
}

// TestLateAnswer holds that a segment that was given up is skipped once, and that a late answer does nothing.
func TestLateAnswer(t *testing.T) {
	c := newDDSCamera(PaperDDS())
	var skipped []method.Segment
	for n := range method.Segment(5) {
		for _, do := range c.Step(0, method.Captured{Segment: n, Frames: 2, Width: 320, Height: 192}) {
			if s, ok := do.(method.Skip); ok {
				skipped = append(skipped, s.Segment)
			}
		}
	}
	if !slices.Equal(skipped, []method.Segment{0, 1, 2}) {
		t.Errorf("skipped %v", skipped)
	}
	wanted := method.Wanted{Regions: [][]videoext.Region{{square(0, 0, 0.1)}, nil}}
	if do := c.Step(0, method.Answer{Segment: 0, Content: wanted}); do != nil {
		t.Errorf("a late answer makes it %+v", do)
	}
	if do := c.Step(0, method.Answer{Segment: 4, Content: wanted}); len(do) != 2 {
		t.Errorf("an answer makes it %+v", do)
	}
}
