// Package features streams the features of a detector that is split between a sensor and a server: each spatial block of the maps has a quality of its own
// (pipelines e, f and g of Du and others, "OneAdapt", SoCC 2023).
package features

import (
	"fmt"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/accuracy"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
)

// Recording is the features of a clip: what a sensor has, before it sends them.
type Recording struct {
	name      string // of what stands in for another sensor, and a dash
	detector  *Detector
	intervals []*volume
}

// Record runs the sensor's part on frames, of which so many are an interval. Frames of an interval that is not full are left out.
func Record(d *Detector, s Sensor, frames []*media.Frame, each int) (*Recording, error) {
	r := &Recording{detector: d}
	if s.StandIn {
		r.name = s.Name + "-"
	}
	shape := d.at.Shape
	for len(frames) >= each && each > 0 {
		var maps [][]float32
		for _, f := range frames[:each] {
			values, err := d.extractFeatures(s.takePicture(f))
			if err != nil {
				return nil, err
			}
			maps = append(maps, values)
		}
		r.intervals = append(r.intervals, quantiseFeatures(maps, shape[1], shape[2], shape[3]))
		frames = frames[each:]
	}
	if len(r.intervals) == 0 {
		return nil, fmt.Errorf("%d frames are no interval of %d", len(frames), each)
	}
	return r, nil
}

// Pipeline streams a recording in side x side blocks. It implements pipeline.Pipeline.
type Pipeline struct {
	*Recording
	grid  grid
	knobs []oneadapt.Knob
}

// New makes the pipeline of a recording: side x side blocks are as many knobs.
func New(r *Recording, side int) (*Pipeline, error) {
	if v := r.intervals[0]; side < 1 || side > min(v.height, v.width) {
		return nil, fmt.Errorf("maps of %d x %d cannot be parted in %d x %d blocks", v.height, v.width, side, side)
	}
	p := &Pipeline{Recording: r, grid: grid{side}}
	for i := range p.grid.blockCount() {
		p.knobs = append(p.knobs, oneadapt.Even(fmt.Sprintf("block %d,%d", i/side, i%side), len(steps)))
	}
	return p, nil
}

// input is an interval at a configuration. What is decoded of it is made when it is needed.
type input struct {
	interval int
	config   oneadapt.Config
	bytes    float64
	shares   []float64 // of blocks
}

// Cost implements pipeline.Input: bytes.
func (in *input) Cost() float64 { return in.bytes }

// Costs implements pipeline.Parted.
func (in *input) Costs() []float64 {
	costs := make([]float64, len(in.shares))
	for i, share := range in.shares {
		costs[i] = share * in.bytes
	}
	return costs
}

// Name implements pipeline.Pipeline.
func (p *Pipeline) Name() string { return fmt.Sprintf("features-%s%d", p.name, p.grid.blockCount()) }

// Intervals implements pipeline.Pipeline.
func (p *Pipeline) Intervals() int { return len(p.intervals) }

// Knobs implements pipeline.Pipeline.
func (p *Pipeline) Knobs() []oneadapt.Knob { return p.knobs }

// Parts implements pipeline.Pipeline.
func (p *Pipeline) Parts() bool { return true }

// Prepare implements pipeline.Pipeline.
func (p *Pipeline) Prepare(interval int, c oneadapt.Config) (pipeline.Input, error) {
	data, shares, err := p.intervals[interval].encodeFeatures(p.grid, c)
	if err != nil {
		return nil, err
	}
	return &input{interval, slices.Clone(c), float64(len(data)), shares}, nil
}

// decodedVolume is what comes out at the server.
func (p *Pipeline) decodedVolume(in pipeline.Input) *volume {
	i := in.(*input)
	return p.intervals[i.interval].reconstructVolume(p.grid, i.config)
}

// Infer implements pipeline.Pipeline: what is found in each frame.
func (p *Pipeline) Infer(in pipeline.Input) (pipeline.Result, error) {
	v := p.decodedVolume(in)
	var found []videoext.Findings
	for n := range v.frames {
		f, err := p.detector.inferFindings(v.frameBytes(n))
		if err != nil {
			return nil, err
		}
		found = append(found, f)
	}
	return found, nil
}

// utility counts persons more gently than the published code does, by whose slope of 20 next to no gradient is left where a score is far from the threshold: at
// 0.8 its slope is 0.05, and by 6 it is 0.7.
var utility = oneadapt.Utility{Threshold: threshold, Slope: 6}

// Gradient implements pipeline.Pipeline: at the last frame, for each block the root of the sum of squares.
func (p *Pipeline) Gradient(in pipeline.Input) (*oneadapt.Map, error) {
	v := p.decodedVolume(in)
	found, slopes, err := p.detector.utilityGradient(v.frameBytes(v.frames-1), utility)
	if err != nil {
		return nil, err
	}
	m := oneadapt.NewMap(p.grid.side, p.grid.side)
	m.Utility = float32(found)
	for i, s := range slopes {
		x, y := i%v.width, i/v.width%v.height
		m.Values[p.grid.blockAt(v, y, x)] += s * s
	}
	for i, sum := range m.Values {
		m.Values[i] = float32(math.Sqrt(float64(sum)))
	}
	return m, nil
}

// Changes implements pipeline.Pipeline: of each block as if it changed alone, the size of the gradient times that of the difference, as a sum of terms of either sign.
func (p *Pipeline) Changes(m *oneadapt.Map, against, in pipeline.Input) ([]float64, error) {
	a, b := p.decodedVolume(against), p.decodedVolume(in)
	sums, counts := make([]int, len(p.knobs)), make([]int, len(p.knobs))
	p.grid.visitRows(a, func(block, _, _, from, to int) {
		for i := from; i < to; i++ {
			d := int(a.levels[i]) - int(b.levels[i])
			sums[block] += d * d
		}
		counts[block] += to - from
	})
	changes := make([]float64, len(p.knobs))
	for i := range changes {
		changes[i] = float64(m.Values[i]) * float64(a.unit) * math.Sqrt(float64(sums[i])/float64(counts[i]))
	}
	return changes, nil
}

// threshold is the score of what counts as found.
const threshold = 0.5

// Accuracy implements pipeline.Pipeline: the mean IoU of boxes.
func (p *Pipeline) Accuracy(truth, got pipeline.Result) float64 {
	return accuracy.BoxIoU(truth.([]videoext.Findings), got.([]videoext.Findings), threshold)
}

// Regions gives the blocks in which something was found in the interval before one setting, and others another (the region-based way, which extends Du and others,
// "DDS", SIGCOMM 2020, and Liu and others, "EAAR", MobiCom 2019).
func (p *Pipeline) Regions(high, low int) func(last pipeline.Result) oneadapt.Config {
	v := p.intervals[0]
	return func(last pipeline.Result) oneadapt.Config {
		c := slices.Repeat(oneadapt.Config{low}, len(p.knobs))
		for _, f := range last.([]videoext.Findings) {
			for _, found := range f.Detections {
				if found.Score >= threshold {
					p.markRegion(c, v, found.Region, high)
				}
			}
		}
		return c
	}
}

// markRegion sets the blocks that a region touches.
func (p *Pipeline) markRegion(c oneadapt.Config, v *volume, r videoext.Region, setting int) {
	d := p.detector
	across, down := float32(d.width)/float32(d.size.Width), float32(d.height)/float32(d.size.Height) // pictures fill a part of the maps
	at := func(part float32, of int) int { return max(0, min(of-1, int(part*float32(of)))) }
	for y := at(r.Y0*down, v.height); y <= at(r.Y1*down, v.height); y++ {
		for x := at(r.X0*across, v.width); x <= at(r.X1*across, v.width); x++ {
			c[p.grid.blockAt(v, y, x)] = setting
		}
	}
}
