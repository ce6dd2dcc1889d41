// Package clips has recorded video as a streaming pipeline, whose knobs are those of an encoder or of a filter of frames (pipelines a, b, c and i of OneAdapt).
package clips

import (
	"fmt"
	"math"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/emulate"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/methods"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
)

// Options are what a pipeline is made of.
type Options struct {
	Name   string
	Tools  emulate.Tools // Codec, Server, Gradient and Differ
	Clip   *emulate.Clip
	Frames int // of an interval
	Knobs  methods.Knobs
	// Accuracy of what was found in an interval's frames.
	Accuracy func(truth, got []videoext.Findings) float64
	// Squares is how many macroblocks, each way, are set as one where accuracy is measured knob by knob; 0: knobs are of the whole frame.
	Squares int
}

// Pipeline implements pipeline.Pipeline. Its inputs are segments as they come out of the decoder, its results []videoext.Findings.
type Pipeline struct {
	o        Options
	knobs    []oneadapt.Knob
	measured map[int][][]float64 // how the frames of intervals differ
}

// New holds the parts of a clip that are whole intervals to be its data.
func New(o Options) (*Pipeline, error) {
	if o.Frames < 1 || len(o.Clip.Frames) < o.Frames {
		return nil, fmt.Errorf("%s: intervals of %d frames of a clip that has %d", o.Name, o.Frames, len(o.Clip.Frames))
	}
	f := o.Clip.Frames[0]
	return &Pipeline{o: o, knobs: o.Knobs.Of(f.Width, f.Height), measured: map[int][][]float64{}}, nil
}

// Name implements pipeline.Pipeline.
func (p *Pipeline) Name() string { return p.o.Name }

// Knobs implements pipeline.Pipeline.
func (p *Pipeline) Knobs() []oneadapt.Knob { return p.knobs }

// Parts implements pipeline.Pipeline.
func (p *Pipeline) Parts() bool { return p.o.Squares > 0 }

// Groups implements pipeline.Grouped: macroblocks in squares, of which those at the right and lower edge may be cut.
func (p *Pipeline) Groups() [][]int {
	if !p.Parts() {
		return pipeline.Each(len(p.knobs))
	}
	columns := (p.o.Clip.Frames[0].Width + media.MacroblockSize - 1) / media.MacroblockSize
	across := (columns + p.o.Squares - 1) / p.o.Squares
	var groups [][]int
	for knob := range p.knobs {
		square := knob/columns/p.o.Squares*across + knob%columns/p.o.Squares
		for square >= len(groups) {
			groups = append(groups, nil)
		}
		groups[square] = append(groups[square], knob)
	}
	return groups
}

// Intervals implements pipeline.Pipeline.
func (p *Pipeline) Intervals() int { return len(p.o.Clip.Frames) / p.o.Frames }

// input is a segment as it was sent. Its frames are decoded where they are needed, for all that a stream's configurations have do not fit into memory.
type input struct {
	cost     float64
	interval int
	coded    *media.Segment
	of       []int // the frames that were sent
}

// Cost implements pipeline.Input.
func (in *input) Cost() float64 { return in.cost }

// Prepare implements pipeline.Pipeline.
func (p *Pipeline) Prepare(interval int, c oneadapt.Config) (pipeline.Input, error) {
	s, whole := p.intervalSegment(interval), p.intervalFrames(interval)
	v := p.o.Knobs.Variant(s, c)
	frames := make([]*media.Frame, len(v.Frames))
	for i, n := range v.Frames {
		frames[i] = whole[n]
	}
	settings := v.Settings
	settings.Rate = p.o.Clip.Rate
	coded, err := p.o.Tools.Codec.Encode(frames, settings)
	if err != nil {
		return nil, err
	}
	return &input{p.o.Knobs.Cost(&v, coded.Container), interval, coded.Segment, v.Frames}, nil
}

// shownFrames is each frame of an input's interval as it is shown, in the clip's size.
func (p *Pipeline) shownFrames(in pipeline.Input) ([]*media.Frame, error) {
	i := in.(*input)
	sent, err := p.o.Tools.Codec.Decode(i.coded)
	if err != nil {
		return nil, err
	}
	return oneadapt.Shown(sent, i.of, p.o.Frames, p.intervalFrames(i.interval)[0], p.o.Tools.Codec.Scale)
}

// intervalFrames are those of an interval.
func (p *Pipeline) intervalFrames(interval int) []*media.Frame {
	return p.o.Clip.Frames[interval*p.o.Frames:][:p.o.Frames]
}

// intervalSegment is what the knobs have to know of an interval.
func (p *Pipeline) intervalSegment(interval int) *methods.Segment {
	frames := p.intervalFrames(interval)
	s := &methods.Segment{Captured: method.Captured{Frames: len(frames), Width: frames[0].Width, Height: frames[0].Height}}
	if _, ok := p.measured[interval]; !ok {
		var all [][]float64
		for _, feature := range p.o.Knobs.Features() {
			values := []float64{math.Inf(1)}
			for i := range frames[1:] {
				values = append(values, p.o.Tools.Differ(feature, frames[i], frames[i+1]))
			}
			all = append(all, values)
		}
		p.measured[interval] = all
	}
	s.Measured = p.measured[interval]
	return s
}

// Sense implements pipeline.Sensed: how a frame differs from the one before, in the mean, by pixels, by area and by edges.
func (p *Pipeline) Sense(interval int) ([]float64, error) {
	frames := p.intervalFrames(interval)
	means := make([]float64, 3)
	for i, feature := range []method.Feature{method.Pixel, method.Area, method.Edge} {
		for at := range frames[1:] {
			means[i] += p.o.Tools.Differ(feature, frames[at], frames[at+1]) / float64(len(frames)-1)
		}
	}
	return means, nil
}

// Sure implements pipeline.Sensed: the mean score of what was found, each weighed by its score; 1 where there is nothing.
func (p *Pipeline) Sure(r pipeline.Result) float64 {
	sum, squares := 0.0, 0.0
	for _, found := range r.([]videoext.Findings) {
		for _, d := range found.Detections {
			sum, squares = sum+float64(d.Score), squares+float64(d.Score)*float64(d.Score)
		}
	}
	if sum == 0 {
		return 1
	}
	return squares / sum
}

// Infer implements pipeline.Pipeline: a frame that was not sent has what was found in the one before.
func (p *Pipeline) Infer(in pipeline.Input) (pipeline.Result, error) {
	i := in.(*input)
	sent, err := p.o.Tools.Codec.Decode(i.coded)
	if err != nil {
		return nil, err
	}
	found, next := make([]videoext.Findings, p.o.Frames), 0
	for frame := range found {
		if next == len(i.of) || i.of[next] != frame {
			found[frame] = found[frame-1]
			continue
		}
		if found[frame], err = p.o.Tools.Server.Infer(sent[next]); err != nil {
			return nil, err
		}
		next++
	}
	return found, nil
}

// Gradient implements pipeline.Pipeline: that of the last frame.
func (p *Pipeline) Gradient(in pipeline.Input) (*oneadapt.Map, error) {
	sent, err := p.o.Tools.Codec.Decode(in.(*input).coded)
	if err != nil {
		return nil, err
	}
	return p.o.Tools.Gradient.Gradient(sent[len(sent)-1])
}

// Changes implements pipeline.Pipeline.
func (p *Pipeline) Changes(m *oneadapt.Map, against, in pipeline.Input) ([]float64, error) {
	before, err := p.shownFrames(against)
	if err != nil {
		return nil, err
	}
	after, err := p.shownFrames(in)
	if err != nil {
		return nil, err
	}
	return oneadapt.Changes(m, before, after, p.Parts())
}

// Accuracy implements pipeline.Pipeline.
func (p *Pipeline) Accuracy(truth, got pipeline.Result) float64 {
	return p.o.Accuracy(truth.([]videoext.Findings), got.([]videoext.Findings))
}

// Soft is how far findings agree in what counts, by degrees: twice what things that match have of a utility in common, as a part of what all have. It changes with
// each score, where F1 counts things that pass a threshold.
func Soft(u oneadapt.Utility, iou float32) func(truth, got []videoext.Findings) float64 {
	return func(truth, got []videoext.Findings) float64 {
		both, all := 0.0, 0.0
		for i := range truth {
			for _, d := range got[i].Detections {
				all += detectionWorth(u, d)
			}
			for _, t := range truth[i].Detections {
				all += detectionWorth(u, t)
				best := 0.0
				for _, d := range got[i].Detections {
					if d.Class == t.Class && d.IoU(t.Region) >= iou {
						best = max(best, min(detectionWorth(u, t), detectionWorth(u, d)))
					}
				}
				both += best
			}
		}
		if all == 0 {
			return 1
		}
		return min(2*both/all, 1)
	}
}

func detectionWorth(u oneadapt.Utility, d videoext.Detection) float64 {
	value, _ := u.Evaluate(float64(d.Score))
	return value
}
