package clips

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/emulate"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/media/x264"
	"github.com/prefillonly/prefillonly/videoext/methods"
	"github.com/prefillonly/prefillonly/videoext/motion"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
	"github.com/prefillonly/prefillonly/videoext/pipeline/pipelinetest"
)

// codec is the real one, in this process.
type codec struct{ scaler ffmpeg.Scaler }

func (c *codec) Encode(frames []*media.Frame, s media.Settings) (emulate.Coded, error) {
	width, height := s.Size(frames[0].Width, frames[0].Height)
	scaled := make([]*media.Frame, len(frames))
	for i, f := range frames {
		var err error
		if scaled[i], err = c.Scale(f, width, height); err != nil {
			return emulate.Coded{}, err
		}
	}
	segment, err := (x264.Encoder{}).Encode(context.Background(), scaled, s)
	if err != nil {
		return emulate.Coded{}, err
	}
	file, err := ffmpeg.MP4(segment)
	return emulate.Coded{Segment: segment, Container: len(file)}, err
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

// column finds the bright column of drawn frames: a network that can be told by hand.
type column struct{ looked int }

func (c *column) Infer(f *media.Frame) (found videoext.Findings, err error) {
	c.looked++
	best, sum := 0, 0
	for x := range f.Width {
		total := 0
		for y := range f.Height {
			total += int(f.Y[y*f.YStride+x])
		}
		if total > sum {
			best, sum = x, total
		}
	}
	x := float32(best) / float32(f.Width)
	found.Detections = []videoext.Detection{{Region: videoext.Region{X0: x, X1: x + 0.1, Y1: 1}, Score: 0.9}}
	return found, nil
}

// Gradient is the same everywhere.
func (c *column) Gradient(f *media.Frame) (*oneadapt.Map, error) {
	m := oneadapt.NewMap((f.Width+15)/16, (f.Height+15)/16)
	for i := range m.Values {
		m.Values[i] = 1
	}
	m.Utility = 1
	return m, nil
}

// drawn has a column that stands still, and jumps once in the middle of each interval of 8.
func drawn(frames int) *emulate.Clip {
	clip := &emulate.Clip{Name: "drawn", Rate: 10}
	for n := range frames {
		f := media.NewFrame(128, 64)
		for i := range f.Y {
			f.Y[i] = byte(40 + i*i*7%23)
		}
		for i := range f.Cb {
			f.Cb[i], f.Cr[i] = 128, 128
		}
		left := 24 + 48*((n+4)/8%2)
		for y := range f.Height {
			for x := left; x < left+12; x++ {
				f.Y[y*f.YStride+x] = 220
			}
		}
		clip.Frames = append(clip.Frames, f)
	}
	return clip
}

func open(t *testing.T, knobs methods.Knobs) (*Pipeline, *column) { return openSquares(t, knobs, 0) }

func openSquares(t *testing.T, knobs methods.Knobs, squares int) (*Pipeline, *column) {
	t.Helper()
	clip, c, network := drawn(24), &codec{}, &column{}
	if _, err := c.Encode(clip.Frames[:1], media.Settings{Rate: 1, Quality: media.QP(20)}); err != nil {
		t.Skip(err)
	}
	tools := emulate.Tools{Codec: c, Server: network, Gradient: network, Differ: motion.Differ, Clock: func() time.Duration { return 0 }}
	p, err := New(Options{Name: "drawn", Tools: tools, Clip: clip, Frames: 8, Knobs: knobs, Squares: squares, Accuracy: Soft(oneadapt.UsualUtility(), 0.5)})
	if err != nil {
		t.Fatal(err)
	}
	return p, network
}

// TestFilter: of intervals with one jump in each, the frames that a filter lets through are two, and enough.
func TestFilter(t *testing.T) {
	p, network := open(t, &methods.FilterKnobs{Biases: []float64{3, 0, -3}, Quality: videoext.Quality{QP: 24, Scale: 1}})
	if p.Intervals() != 3 {
		t.Fatalf("%d intervals of 24 frames", p.Intervals())
	}
	lab := pipeline.NewLab(p)
	for _, test := range []struct {
		config   oneadapt.Config
		cost     float64
		accuracy float64
	}{{oneadapt.Config{2, 2}, 8, 1}, {oneadapt.Config{1, 1}, 2, 1}, {oneadapt.Config{0, 0}, 1, 0.5}} {
		before := network.looked
		steps, err := lab.Run(pipeline.Fixed{Config: test.config})
		if err != nil {
			t.Fatal(err)
		}
		m := pipeline.Mean(steps)
		if math.Abs(m.Cost-test.cost/8) > 1e-9 || math.Abs(m.Accuracy-test.accuracy) > 0.01 || network.looked-before != int(3*test.cost) {
			t.Errorf("at %v cost is %v, accuracy %v, and %d frames were looked at", test.config, m.Cost, m.Accuracy, network.looked-before)
		}
	}
}

// TestCodec: finer settings cost more, and a gradient says that the output changes by more from farther settings.
func TestCodec(t *testing.T) {
	p, _ := open(t, &methods.CodecKnobs{QPs: []int{50, 36, 20}, Scales: []float64{0.5, 1}, Biases: []int{0}})
	var inputs []pipeline.Input
	for _, c := range []oneadapt.Config{{2, 1}, {1, 1}, {0, 1}, {0, 0}} {
		in, err := p.Prepare(1, c)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(inputs); n > 0 && in.Cost() >= inputs[n-1].Cost() {
			t.Errorf("%v costs %v, and the one before %v", c, in.Cost(), inputs[n-1].Cost())
		}
		inputs = append(inputs, in)
	}
	m, err := p.Gradient(inputs[0])
	if err != nil {
		t.Fatal(err)
	}
	last := 0.0
	for i, in := range inputs[:3] {
		changes, err := p.Changes(m, inputs[0], in)
		if err != nil || len(changes) != 1 || changes[0] <= last != (i == 0) {
			t.Errorf("input %d changes the output by %v, the one before by %v; %v", i, changes, last, err)
			continue
		}
		last = changes[0]
	}
}

// TestBlocks: each macroblock has a change of its own, which is nothing where nothing is set otherwise, and squares have all of them once.
func TestBlocks(t *testing.T) {
	p, _ := openSquares(t, &methods.BlockKnobs{QPs: []int{46, 22}}, 3)
	pipelinetest.Run(t, p)
	groups := p.Groups()
	all := slices.Concat(groups...)
	slices.Sort(all)
	if len(groups) != 3*2 || len(all) != 8*4 || all[0] != 0 || len(slices.Compact(all)) != 8*4 || !slices.Equal(groups[5], []int{30, 31}) {
		t.Errorf("the squares are %v", groups)
	}
	left := oneadapt.Cheapest(p.Knobs())
	for i := range left {
		if i%8 < 3 {
			left[i] = 1
		}
	}
	var inputs []pipeline.Input
	for _, c := range []oneadapt.Config{oneadapt.Cheapest(p.Knobs()), left} {
		in, err := p.Prepare(0, c)
		if err != nil {
			t.Fatal(err)
		}
		inputs = append(inputs, in)
	}
	m, err := p.Gradient(inputs[0])
	if err != nil {
		t.Fatal(err)
	}
	changes, err := p.Changes(m, inputs[0], inputs[1])
	if err != nil || len(changes) != 8*4 {
		t.Fatalf("%v %v", changes, err)
	}
	here, there := 0.0, 0.0
	for i, c := range changes {
		if i%8 < 3 {
			here += c
		} else if i%8 > 3 { // the filter of edges reaches the next one
			there += c
		}
	}
	if here < 4*there {
		t.Errorf("the finer macroblocks change the output by %v, and the others by %v", here, there)
	}
}

// TestStreamed: plain H.264 as a method is a fixed configuration, segment by segment; DDS looks twice.
func TestStreamed(t *testing.T) {
	p, _ := openSquares(t, &methods.BlockKnobs{QPs: []int{46, 22}}, 3)
	lab := pipeline.NewLab(p)
	way := func(specification string) pipeline.Step {
		m, err := methods.New(specification, methods.Learned{})
		if err != nil {
			t.Fatal(err)
		}
		steps, err := lab.Part(&Streamed{Pipeline: p, Method: m}, 1, 3)
		if err != nil {
			t.Fatal(err)
		}
		return pipeline.Mean(steps)
	}
	fine, coarse, dds := way("mpeg:frames=8,qp=22"), way("mpeg:frames=8,qp=46"), way("dds:frames=8,low=46,high=22")
	if fine.Accuracy < 0.7 || math.Abs(fine.Cost-1) > 0.4 || fine.Inferences != 2 { // its I-frames are finer than those of a map of quantisers
		t.Errorf("at the dearest QP: %+v", fine)
	}
	if !(coarse.Cost < 0.8*fine.Cost) || coarse.Inferences != 2 {
		t.Errorf("at the cheapest QP: %+v, at the dearest %+v", coarse, fine)
	}
	if dds.Cost < coarse.Cost || dds.Inferences < 2 || dds.Inferences > 4 {
		t.Errorf("DDS: %+v", dds)
	}
	m, err := methods.New("mpeg:frames=7", methods.Learned{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lab.Run(&Streamed{Pipeline: p, Method: m}); err == nil {
		t.Error("segments of 7 frames are intervals of 8")
	}
}

// TestSoft: agreement falls with scores, where boxes stay.
func TestSoft(t *testing.T) {
	agree := Soft(oneadapt.UsualUtility(), 0.5)
	one := func(x, score float32) []videoext.Findings {
		return []videoext.Findings{{Detections: []videoext.Detection{{Region: videoext.Region{X0: x, X1: x + 0.1, Y1: 1}, Score: score}}}}
	}
	truth, same, weaker, apart := one(0.1, 0.6), one(0.1, 0.6), one(0.1, 0.5), one(0.5, 0.6)
	if a := agree(truth, same); a != 1 {
		t.Errorf("with itself %v", a)
	}
	if a := agree(truth, weaker); a < 0.7 || a > 0.75 {
		t.Errorf("with a weaker one %v", a)
	}
	if a := agree(truth, apart); a != 0 {
		t.Errorf("with one elsewhere %v", a)
	}
	if a := agree([]videoext.Findings{{}}, []videoext.Findings{{}}); a != 1 {
		t.Errorf("of nothing with nothing %v", a)
	}
}
