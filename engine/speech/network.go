package speech

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/pipeline"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// Windows of networks that take sound of any length.
const (
	windowSeconds  = 20
	overlapSeconds = 4 // of two windows: what is within half of it of an end is taken from the other one
)

// network is how sound goes into a network, and what comes out.
type network struct {
	Settings
	sound    wire.TensorSpec   // of which the last dimension is samples
	lengths  []wire.TensorSpec // of numbers of samples, or of a one for each
	outputs  [2]string         // the likeliest symbols, and their values
	fixed    int               // samples that it takes; 0: any
	overlap  int
	greatest int // samples of a window
}

// newNetwork says how a network hears; an error of engine.CodeUnavailable that it does not.
func newNetwork(s Settings, limits *wire.TensorLimits) (*network, error) {
	n := &network{Settings: s}
	for _, in := range limits.Inputs {
		dims := len(in.Shape)
		switch {
		case in.Type == engine.FP32 && n.sound.Name == "" && (dims == 2 || dims == 3 && in.Shape[1] == 1) && in.Shape[0] <= 1:
			n.sound = in
		case (in.Type == engine.Int64 || in.Type == engine.Int32) && (dims == 1 || dims == 2):
			n.lengths = append(n.lengths, in)
		default:
			return nil, engine.Errorf(engine.CodeUnavailable, "the network does not take sound: want an input of FP32 [1, samples] or [1, 1, samples] and beside it lengths of INT64 at most; got %s of %v and the shape %v", in.Name, in.Type, in.Shape)
		}
	}
	last := len(limits.Outputs)
	if n.sound.Name == "" || last < 3 || limits.Outputs[last-2].Type != engine.Int64 || limits.Outputs[last-1].Type != engine.FP32 {
		return nil, engine.Errorf(engine.CodeUnavailable, "the network does not hear: want an input of sound, and a first output of FP32 [1, steps, symbols]")
	}
	n.outputs = [2]string{limits.Outputs[last-2].Name, limits.Outputs[last-1].Name} // as decoder: ctc adds them
	n.fixed = max(0, n.sound.Shape[len(n.sound.Shape)-1])
	n.greatest, n.overlap = windowSeconds*s.Rate, overlapSeconds*s.Rate
	if n.fixed > 0 {
		n.greatest, n.overlap = n.fixed, n.fixed/4
	}
	return n, nil
}

// window is a part of a sound that a network hears at a time.
type window struct {
	from, to int // samples
	keep     [2]int
	size     int  // samples with silence behind
	begins   bool // what is before it was cut out
}

// windows are those of a sound. Where two overlap each keeps what is nearer to its middle.
func (n *network) windows(length int) (all []window) {
	for from := 0; ; from += n.greatest - n.overlap {
		w := window{from: from, to: min(from+n.greatest, length)}
		w.keep = [2]int{from + n.overlap/2, w.to - n.overlap/2}
		if from == 0 {
			w.keep[0] = 0
		}
		w.size = n.fixed
		if n.fixed == 0 { // of whole seconds, so that a network sees few sizes
			w.size = max(1, (w.to-from+n.Rate-1)/n.Rate) * n.Rate
		}
		if w.to == length {
			w.keep[1] = length
			return append(all, w)
		}
		all = append(all, w)
	}
}

// windowsOf are those of a part of a sound.
func (n *network) windowsOf(s span) []window {
	all := n.windows(s.to - s.from)
	for i := range all {
		w := &all[i]
		w.from, w.to, w.keep = w.from+s.from, w.to+s.from, [2]int{w.keep[0] + s.from, w.keep[1] + s.from}
	}
	all[0].begins = true
	return all
}

// longest is how many samples a window has at most.
func (n *network) longest() int { return n.greatest }

// inputs are those of a window.
func (n *network) inputs(sound []float32, w window) []pipeline.Tensor {
	part, mean, scale := sound[w.from:w.to], 0.0, 1.0
	if n.Normalize {
		mean, scale = moments(part)
	}
	data := make([]byte, 0, 4*w.size)
	for _, v := range part {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32((float64(v)-mean)*scale)))
	}
	shape := slices.Repeat([]int{1}, len(n.sound.Shape))
	shape[len(shape)-1] = w.size
	all := []pipeline.Tensor{{Name: n.sound.Name, Type: engine.FP32, Shape: shape, Data: data[:4*w.size]}}
	for _, l := range n.lengths {
		all = append(all, lengthTensor(l, len(part), w.size))
	}
	return all
}

// lengthTensor says how much of a window is sound: by a number or, of two dimensions, by a one for each sample of it.
func lengthTensor(spec wire.TensorSpec, part, size int) pipeline.Tensor {
	t := pipeline.Tensor{Name: spec.Name, Type: spec.Type, Shape: []int{1}, Data: binary.LittleEndian.AppendUint64(nil, uint64(part))[:spec.Type.Size()]}
	if len(spec.Shape) == 2 {
		t.Shape, t.Data = []int{1, size}, make([]byte, size*spec.Type.Size())
		for i := range part {
			t.Data[i*spec.Type.Size()] = 1
		}
	}
	return t
}

// moments are the mean, and what a variance of 1 is made with, as Wav2Vec2FeatureExtractor has it.
func moments(sound []float32) (mean, scale float64) {
	sum, squares := 0.0, 0.0
	for _, v := range sound {
		sum += float64(v)
	}
	mean = sum / float64(max(1, len(sound)))
	for _, v := range sound {
		squares += (float64(v) - mean) * (float64(v) - mean)
	}
	return mean, 1 / math.Sqrt(squares/float64(max(1, len(sound)))+1e-7)
}

// hearing is what a network has said of the windows of a sound.
type hearing struct {
	rate, length int   // of the sound
	blank        int64 // is between parts of it
	best         []int64
	values       []float32
	at           []float64 // seconds at which a step begins
	step         float64   // seconds of the last one
}

// add adds what is kept of a window. Windows come in the order of time.
func (h *hearing) add(w window, said []pipeline.Tensor) error {
	if len(said) != 2 || said[0].Type != engine.Int64 || said[1].Type != engine.FP32 || len(said[0].Data) != 2*len(said[1].Data) || len(said[1].Data)%4 != 0 {
		return fmt.Errorf("the network answers %d outputs, want symbols of INT64 and as many values of FP32", len(said))
	}
	if w.begins && len(h.best) > 0 {
		h.best, h.values, h.at = append(h.best, h.blank), append(h.values, 1), append(h.at, float64(w.from)/float64(h.rate))
	}
	steps := len(said[1].Data) / 4
	for i := range steps {
		begin, middle := w.from+i*w.size/steps, w.from+(2*i+1)*w.size/(2*steps)
		if middle < w.keep[0] || middle >= w.keep[1] {
			continue
		}
		h.best = append(h.best, int64(binary.LittleEndian.Uint64(said[0].Data[8*i:])))
		h.values = append(h.values, math.Float32frombits(binary.LittleEndian.Uint32(said[1].Data[4*i:])))
		h.at = append(h.at, float64(begin)/float64(h.rate))
	}
	h.step = float64(w.size) / float64(max(1, steps)) / float64(h.rate)
	return nil
}

// end is when a step ends.
func (h *hearing) end(step int) float64 {
	return min(h.at[step]+h.step, h.seconds())
}

func (h *hearing) seconds() float64 { return float64(h.length) / float64(h.rate) }
