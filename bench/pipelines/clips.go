package pipelines

import (
	"github.com/prefillonly/prefillonly/videoext/adapt"
	"github.com/prefillonly/prefillonly/videoext/emulate"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
	"github.com/prefillonly/prefillonly/videoext/pipeline/clips"
)

// Of pipelines of video.
const (
	VideoRate  = 10  // frames a second
	VideoFound = 0.3 // the least score of what counts
	// videoIoU is that of boxes of one thing, as in OneAdapt's published evaluation.
	videoIoU = 0.5
)

// filterSeconds are how much is taken of the clip of persons.
const filterSeconds = 40

// openFilter is pipeline c: which frames of an indoor camera are sent, against profiling all ways to filter them.
func openFilter(s Source) (*Study, error) {
	settings := adapt.Usual()
	settings.Knobs = "filter"
	study, err := openClip(s, settings, "indoor_persons_768x432.mp4", filterSeconds, "person")
	if err != nil {
		return nil, err
	}
	study.Baselines = Profiled("profiling", pipeline.Grid(study.Knobs(), 1), []Period{{8, 1}, {16, 1}}, []float64{0.1, 0.3})
	return study, nil
}

// openClip is a study of a clip, all of it if seconds are 0.
func openClip(s Source, settings adapt.Settings, file string, seconds int, classes ...string) (*Study, error) {
	clip, tools, done, err := s.Video(file, classes...)
	if err != nil {
		return nil, err
	}
	if n := seconds * VideoRate; n > 0 && n < len(clip.Frames) {
		clip.Frames = clip.Frames[:n]
	}
	return studyClip(settings.Knobs, settings, clip, tools, done)
}

// studyClip is a study of what there is of a clip. Done is its Close, and is called if there is an error.
func studyClip(name string, settings adapt.Settings, clip *emulate.Clip, tools emulate.Tools, done func()) (*Study, error) {
	config, err := settings.Config()
	if err != nil {
		done()
		return nil, err
	}
	utility := oneadapt.UsualUtility()
	utility.Threshold = VideoFound
	p, err := clips.New(clips.Options{Name: name, Tools: tools, Clip: clip, Frames: settings.Frames, Knobs: config.Knobs, Accuracy: clips.Soft(utility, videoIoU)})
	if err != nil {
		done()
		return nil, err
	}
	return &Study{
		Pipeline: p,
		Trades:   []float64{0.1, 0.3, 1},
		Rule: func(trade float64, from oneadapt.Config) (oneadapt.Rule, error) {
			return oneadapt.NewAscent(oneadapt.Ascent{Rate: settings.Rate, Weight: trade, Gain: settings.Gain, Elastic: true}, p.Knobs(), from)
		},
		Sample: 24,
		Close:  done,
	}, nil
}
