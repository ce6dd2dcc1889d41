package pipelines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
	"github.com/prefillonly/prefillonly/videoext/pipeline/features"
)

// What features are of: persons who walk through a room.
const (
	featuresClip    = "video/indoor_persons_768x432.mp4"
	featuresNetwork = "models/light_person_192.onnx"
	featuresRate    = 5 // frames a second, and so an interval
	// chosenOn is how many intervals at the beginning are what constants were chosen on, and nothing is judged by: those of seed 0.
	chosenOn = 45
	judgedOn = 60 // intervals behind them
)

// Sensors, by their places in features.Sensors.
const (
	rgb = iota
	depth
	infrared
)

// featuresGain is what a change of one is worth; 1 and 10 were tried, too, on the intervals that constants were chosen on. Steps of quantisers and the slope of
// the utility were chosen on them as well.
const featuresGain = 4

// openFeatures is the study of a sensor whose maps are parted into side x side blocks.
func openFeatures(sensor, side int) func(Source) (*Study, error) {
	return func(s Source) (*Study, error) {
		from, to := chosenOn, chosenOn+judgedOn
		if s.Seed == 0 {
			from, to = 0, chosenOn
		}
		frames, err := readFrames(filepath.Join(s.Data, featuresClip), featuresRate, from*featuresRate, to*featuresRate)
		if err != nil {
			return nil, err
		}
		image := images.Options{BGR: true, Letterbox: true, Grey: 114, Height: 192, Width: 320}
		d, err := features.Open(filepath.Join(s.Data, featuresNetwork), s.Backend, "yolox", image)
		if err != nil {
			return nil, err
		}
		recording, err := features.Record(d, features.Sensors()[sensor], frames, featuresRate)
		if err != nil {
			d.Close()
			return nil, err
		}
		p, err := features.New(recording, side)
		if err != nil {
			d.Close()
			return nil, err
		}
		study := &Study{Pipeline: p, Baselines: personRegions(p), Trades: []float64{0.03, 0.1, 0.3, 1, 3}, Sample: max(10, 400/len(p.Knobs())), Close: d.Close}
		study.Rule = func(trade float64, from oneadapt.Config) (oneadapt.Rule, error) {
			return oneadapt.NewAscent(oneadapt.Ascent{Rate: 0.5, Weight: trade, Gain: featuresGain, Separable: true, Elastic: true}, p.Knobs(), from)
		}
		if side == 2 {
			study.Baselines = append(study.Baselines, Profiled("chameleon", pipeline.Grid(p.Knobs(), 3), []Period{{10, 1}}, []float64{0.1, 0.3, 1})...)
		}
		return study, nil
	}
}

// personRegions are region-based ways by the settings of blocks with persons and of others.
func personRegions(p *features.Pipeline) (all []Setting) {
	dearest := len(p.Knobs()[0].Places) - 1
	for _, high := range []int{dearest, dearest - 2, dearest - 3} {
		for low := range 2 {
			all = append(all, Setting{"region", fmt.Sprintf("high=%d,low=%d", high, low), func() pipeline.Way {
				return &pipeline.Heuristic{Next: p.Regions(high, low)}
			}})
		}
	}
	return all
}

// readFrames are some frames of a clip, at so many a second.
func readFrames(file string, rate float64, from, to int) (frames []*media.Frame, err error) {
	source, err := ffmpeg.Open(context.Background(), file, ffmpeg.Options{Rate: rate})
	if err != nil {
		return nil, err
	}
	defer source.Close()
	for n := range to {
		f, err := source.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if n >= from {
			frames = append(frames, f)
		}
	}
	return frames, nil
}
