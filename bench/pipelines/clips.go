package pipelines

import (
	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/emulate"
	"github.com/prefillonly/prefillonly/videoext/methods"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
	"github.com/prefillonly/prefillonly/videoext/pipeline/clips"
)

// Of pipelines of video.
const (
	VideoRate  = 10  // frames a second, at most
	VideoFound = 0.3 // the least score of what counts
	videoIoU   = 0.5 // of boxes of one thing, as in OneAdapt's published evaluation
	yolox      = "yolox_nano_416.onnx"
)

// filterSeconds are how much is taken of the clip of persons.
const filterSeconds = 40

// openFilter is pipeline c: which frames of an indoor camera are sent, against profiling all ways to filter them.
func openFilter(s Source) (*Study, error) {
	settings := methods.UsualOneAdapt()
	settings.Knobs = "filter"
	study, err := openClip(s, settings, Video{Clip: "indoor_persons_768x432.mp4", Network: yolox, Decoder: "yolox", Classes: []string{"person"}, Found: VideoFound, Seconds: filterSeconds})
	if err != nil {
		return nil, err
	}
	study.Baselines = Profiled("profiling", pipeline.Grid(study.Knobs(), 1), []Period{{8, 1}, {16, 1}}, []float64{0.1, 0.3})
	return study, nil
}

// vehicleVideo are what a dashcam sees of others on a highway, from some seconds on.
func vehicleVideo(from, seconds float64) Video {
	return Video{Clip: "dashcam_highway_960x540.mp4", Network: yolox, Decoder: "yolox", Camera: "fastestdet_352.onnx", Classes: []string{"car", "bus", "train", "truck"}, Found: VideoFound, From: from, Seconds: seconds}
}

// newBoxDistance is how far boxes agree, as OneAdapt's published evaluation counts them.
func newBoxDistance() func(truth, got []videoext.Findings) float64 {
	utility := oneadapt.UsualUtility()
	utility.Threshold = VideoFound
	return clips.Soft(utility, videoIoU)
}

// openClip is a study of things in a clip.
func openClip(s Source, settings methods.OneAdaptSettings, v Video) (*Study, error) {
	clip, tools, done, err := s.Video(v)
	if err != nil {
		return nil, err
	}
	return studyClip(settings.Knobs, settings, clip, tools, done)
}

// studyClip is a study of what there is of a clip. Done is its Close, and is called if there is an error.
func studyClip(name string, settings methods.OneAdaptSettings, clip *emulate.Clip, tools emulate.Tools, done func()) (*Study, error) {
	config, err := settings.Config()
	if err != nil {
		done()
		return nil, err
	}
	p, err := clips.New(clips.Options{Name: name, Tools: tools, Clip: clip, Frames: settings.Frames, Knobs: config.Knobs, Accuracy: newBoxDistance()})
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

// newClipPipeline makes a pipeline of a clip.
func newClipPipeline(s Source, v Video, o clips.Options) (p *clips.Pipeline, done func(), err error) {
	if o.Clip, o.Tools, done, err = s.Video(v); err != nil {
		return nil, nil, err
	}
	if p, err = clips.New(o); err != nil {
		done()
		return nil, nil, err
	}
	return p, done, nil
}
