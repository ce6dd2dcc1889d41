package methods

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/method"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

// Knobs are what a configuration sets of the way in which a segment is encoded.
type Knobs interface {
	knobsName() string
	check() error
	// Of are the knobs for frames of so many pixels.
	Of(width, height int) []oneadapt.Knob
	// Features are what Variant has to know of how frames differ.
	Features() []method.Feature
	// Variant is a segment at a configuration.
	Variant(s *Segment, c oneadapt.Config) method.Variant
	// Cost is the resource that it takes, in any unit.
	Cost(v *method.Variant, bytes int) float64
}

// BlockKnobs has a knob for each macroblock: its quantiser (pipelines a and i).
type BlockKnobs struct {
	QPs []int // the coarsest first
}

func (b *BlockKnobs) knobsName() string { return fmt.Sprintf("blocks, QP %v", b.QPs) }

func (b *BlockKnobs) check() error { return checkLadder("QP", b.QPs, 0, media.MaxQP) }

// checkLadder holds settings to be at least two, ever finer, and in a range.
func checkLadder(what string, values []int, least, most int) error {
	if len(values) < 2 {
		return fmt.Errorf("oneadapt: %d settings of %s; a knob has two at least", len(values), what)
	}
	for i, v := range values {
		if v < least || v > most || i > 0 && v >= values[i-1] {
			return fmt.Errorf("oneadapt: settings of %s are %v; they are to be %d to %d, and go down", what, values, least, most)
		}
	}
	return nil
}

func (b *BlockKnobs) Of(width, height int) []oneadapt.Knob {
	knobs := make([]oneadapt.Knob, len(macroblockGrid(width, height).QP))
	one := quantiserKnob("QP of a macroblock", b.QPs)
	for i := range knobs {
		knobs[i] = one
	}
	return knobs
}

// macroblockGrid is the macroblocks of a frame as it is encoded.
func macroblockGrid(width, height int) *media.QPMap {
	width, height = videoext.Scaled(width, height, 1)
	return media.NewQPMap(width, height, 0)
}

// quantiserKnob is a knob of quantisers at their own distances.
func quantiserKnob(name string, qps []int) oneadapt.Knob {
	k := oneadapt.Knob{Name: name, Places: make([]float64, len(qps))}
	for i, qp := range qps {
		k.Places[i] = float64(qps[0]-qp) / float64(qps[0]-qps[len(qps)-1])
	}
	return k
}

func (b *BlockKnobs) Features() []method.Feature { return nil }

func (b *BlockKnobs) Variant(s *Segment, c oneadapt.Config) method.Variant {
	m := macroblockGrid(s.Width, s.Height)
	for i := range m.QP {
		m.QP[i] = uint8(b.QPs[c[i]])
	}
	settings := videoext.Quality{QP: b.QPs[0], Scale: 1}.Settings(s.Width, s.Height)
	settings.Quality = media.Maps{m}
	return method.Variant{Frames: s.frameNumbers(), Settings: settings}
}

func (b *BlockKnobs) Cost(_ *method.Variant, bytes int) float64 { return float64(bytes) }

// CodecKnobs has knobs of the encoder, for all of a frame (pipeline b).
type CodecKnobs struct {
	QPs    []int     // the coarsest first
	Scales []float64 // of the frame's width and height, the smallest first
	Biases []int     // to B-frames, the most of them first; one: it is no knob
}

func (k *CodecKnobs) knobsName() string {
	return fmt.Sprintf("codec, QP %v, scale %v, bias %v", k.QPs, k.Scales, k.Biases)
}

func (k *CodecKnobs) check() error {
	if len(k.Scales) < 2 || !slices.IsSorted(k.Scales) || k.Scales[0] < 0.1 || k.Scales[len(k.Scales)-1] > 1 || slices.Compact(slices.Clone(k.Scales))[len(k.Scales)-1] == 0 {
		return fmt.Errorf("oneadapt: scales are %v; they are to be at least two, 0.1 to 1, and go up", k.Scales)
	}
	if len(k.Biases) == 0 {
		return errors.New("oneadapt: no bias to B-frames; name one at least")
	}
	if len(k.Biases) > 1 {
		if err := checkLadder("bias to B-frames", k.Biases, -100, 100); err != nil {
			return err
		}
	}
	return checkLadder("QP", k.QPs, 0, media.MaxQP)
}

func (k *CodecKnobs) Of(int, int) []oneadapt.Knob {
	knobs := []oneadapt.Knob{quantiserKnob("QP", k.QPs), {Name: "scale", Places: make([]float64, len(k.Scales))}}
	low, high := k.Scales[0], k.Scales[len(k.Scales)-1]
	for i, s := range k.Scales {
		knobs[1].Places[i] = (s - low) / (high - low)
	}
	if len(k.Biases) > 1 {
		knobs = append(knobs, quantiserKnob("bias to B-frames", k.Biases))
	}
	return knobs
}

func (k *CodecKnobs) Features() []method.Feature { return nil }

// bFrames is how many there may be in a row; fewer by their bias.
const bFrames = 3

func (k *CodecKnobs) Variant(s *Segment, c oneadapt.Config) method.Variant {
	settings := videoext.Quality{QP: k.QPs[c[0]], Scale: k.Scales[c[1]]}.Settings(s.Width, s.Height)
	settings.BFrames, settings.BBias = bFrames, k.Biases[0]
	if len(k.Biases) > 1 {
		settings.BBias = k.Biases[c[2]]
	}
	return method.Variant{Frames: s.frameNumbers(), Settings: settings}
}

func (k *CodecKnobs) Cost(_ *method.Variant, bytes int) float64 { return float64(bytes) }

// FilterKnobs has two knobs of a filter of frames, for how much they differ by Pixel and by Area from the one before (pipeline c). A frame is sent if both
// differences are that many standard deviations above the segment's mean, as in the published code: it takes the least of what each says.
type FilterKnobs struct {
	Biases  []float64 // deviations, the most first: the fewest frames
	Quality videoext.Quality
}

func (k *FilterKnobs) knobsName() string { return fmt.Sprintf("filter, biases %v", k.Biases) }

func (k *FilterKnobs) check() error {
	if len(k.Biases) < 2 {
		return fmt.Errorf("oneadapt: %d biases of the filter; a knob has two settings at least", len(k.Biases))
	}
	for i := range len(k.Biases) - 1 {
		if !(k.Biases[i] > k.Biases[i+1]) {
			return fmt.Errorf("oneadapt: biases of the filter are %v; they are to go down", k.Biases)
		}
	}
	return k.Quality.Check()
}

func (k *FilterKnobs) Of(int, int) []oneadapt.Knob {
	return []oneadapt.Knob{oneadapt.Even("bias of pixels", len(k.Biases)), oneadapt.Even("bias of areas", len(k.Biases))}
}

func (k *FilterKnobs) Features() []method.Feature { return []method.Feature{method.Pixel, method.Area} }

func (k *FilterKnobs) Variant(s *Segment, c oneadapt.Config) method.Variant {
	v := method.Variant{Frames: []int{0}, Settings: k.Quality.Settings(s.Width, s.Height)}
	for frame := 1; frame < s.Frames; frame++ {
		differs := true
		for feature := range k.Features() {
			differs = differs && frameDeviation(s.Measured[feature], frame) > k.Biases[c[feature]]
		}
		if differs {
			v.Frames = append(v.Frames, frame)
		}
	}
	return v
}

// frameDeviation is how many standard deviations a frame's difference is above the mean of those of a segment but its first.
func frameDeviation(values []float64, frame int) float64 {
	var sum, squares float64
	n := float64(len(values) - 1)
	for _, v := range values[1:] {
		sum, squares = sum+v, squares+v*v
	}
	mean := sum / n
	return (values[frame] - mean) / math.Max(math.Sqrt(math.Max(squares/n-mean*mean, 0)), 1e-9)
}

// Cost is the frames that the network looks at.
func (k *FilterKnobs) Cost(v *method.Variant, _ int) float64 { return float64(len(v.Frames)) }
