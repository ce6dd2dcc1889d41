package pipelines

import (
	"fmt"
	"strings"

	"github.com/prefillonly/prefillonly/videoext/accuracy"
	"github.com/prefillonly/prefillonly/videoext/methods"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
	"github.com/prefillonly/prefillonly/videoext/pipeline/clips"
)

// Of pipelines a and i: quantisers of macroblocks.
const (
	blocksFrames = 5 // of an interval
	// blocksSquares are of macroblocks whose quantisers are moved at once to see what accuracy they are worth, each of which takes looks of the network.
	blocksSquares = 12
	// blocksSpread is over how many macroblocks each way a gradient is spread: of 0, 1 and 2 the one that did best on what constants were chosen on; 3 was not tried.
	blocksSpread = 2
	// marksGain is what a change of all of the frame is worth: 10, 30 and 100 were tried on what constants were chosen on.
	marksGain = 100
)

// part is of a clip: what constants were chosen on (seed 0), or what they are judged on. The intervals before it in which streams find their settings do not count.
type part struct {
	from, seconds float64
	warm          int // intervals
}

// openBlocks is pipeline a of the dissertation's table 4.2: the quantiser of each macroblock of a dashcam's video.
func openBlocks(s Source) (*Study, error) {
	at := part{3, 0, 2}
	if s.Seed == 0 {
		at = part{0, 4, 2}
	}
	list := []string{"mpeg:qp=38", "mpeg:qp=33", "mpeg:qp=28"} // whose I-frames are finer than the others, as those of a map of quantisers are not
	list = append(list, ofPairs("dds:preset=tuned,low=%d,high=%d", 44, 32, 42, 30, 40, 26)...)
	list = append(list, ofPairs("accmpeg:low=%d,qp=%d", 40, 30, 36, 26)...)
	list = append(list, ofPairs("eaar:low=%d,qp=%d,objectness=0.1", 44, 32, 40, 28, 36, 24)...)
	study, err := openQuantisers(s, vehicleVideo(at.from, at.seconds), at.warm, 1, clips.Options{Name: "blocks", Accuracy: newBoxDistance()}, list)
	if err == nil {
		study.Variants = []Variant{{Name: "lag=0", Move: spreadGradient}, {Name: "lag=2", Lag: 2, Move: spreadGradient}}
	}
	return study, err
}

// openSegmentation is pipeline i, on a network of pixels: what of a road has marks on it.
func openSegmentation(s Source) (*Study, error) {
	at := part{4.5, 3.5, 3}
	if s.Seed == 0 {
		at = part{0, 3, 2}
	}
	v := Video{
		Clip: "dashcam_highway_960x540.mp4", Network: "road_segmentation_adas_0001.onnx", Decoder: "segmentation", Image: "{order: BGR}", Classes: []string{"mark"},
		From: at.from, Seconds: at.seconds,
	}
	list := []string{"mpeg:qp=40", "mpeg:qp=32"}
	list = append(list, ofPairs("dds:low-scale=1,high-scale=1,margin=0.99,low=%d,high=%d", 48, 32, 44, 28)...)
	study, err := openQuantisers(s, v, at.warm, marksGain, clips.Options{Name: "segmentation", Accuracy: accuracy.MeanIoU}, list)
	if err == nil {
		study.Sees = true // there is a road always, and parts of the frame are less than things
	}
	return study, err
}

// ofPairs are methods with a coarse and a fine quantiser each.
func ofPairs(format string, pairs ...int) (list []string) {
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, fmt.Sprintf(format, pairs[i], pairs[i+1]))
	}
	return list
}

// spreadGradient has of a network's gradient at a macroblock a part in those around it: what is there helps it, too.
func spreadGradient(m *oneadapt.Map, _, _ int) *oneadapt.Map { return m.Spread(blocksSpread) }

// openQuantisers is a study of quantisers of macroblocks, against methods.
func openQuantisers(s Source, v Video, warm int, gain float64, o clips.Options, list []string) (*Study, error) {
	o.Frames, o.Squares, o.Knobs = blocksFrames, blocksSquares, &methods.BlockKnobs{QPs: []int{44, 40, 36, 32, 28, 24}}
	p, done, err := newClipPipeline(s, v, o)
	if err != nil {
		return nil, err
	}
	study := &Study{
		Pipeline: p, Warm: warm, Sample: 3, Patience: 6, Ahead: true, Close: done,
		Trades: []float64{0.1, 0.3, 1},
		Rule: func(trade float64, from oneadapt.Config) (oneadapt.Rule, error) {
			return oneadapt.NewAscent(oneadapt.Ascent{Rate: 0.5, Weight: trade, Gain: gain, Separable: true, Elastic: true}, p.Knobs(), from)
		},
		Move: spreadGradient,
	}
	for _, specification := range list {
		set, err := newMethodSetting(p, specification)
		if err != nil {
			done()
			return nil, err
		}
		study.Baselines = append(study.Baselines, set)
	}
	return study, nil
}

// newMethodSetting is a way to stream by name, with segments that are intervals.
func newMethodSetting(p *clips.Pipeline, specification string) (Setting, error) {
	name, settings, _ := strings.Cut(specification, ":")
	m, err := methods.New(fmt.Sprintf("%s,frames=%d", specification, blocksFrames), methods.Learned{})
	return Setting{name, settings, func() pipeline.Way { return &clips.Streamed{Pipeline: p, Method: m} }}, err
}
