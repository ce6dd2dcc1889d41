// Package audio is a streaming pipeline: spoken digits are recognised in a stream of sound, second by second, and the knob is the sampling rate.
package audio

import (
	_ "embed" // for digits.onnx
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/dnn/direct"
	"github.com/prefillonly/prefillonly/engine/sounds"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
)

// network is a recogniser of English digits that were spoken by six people: 77,000 weights, made by tools/train/audio/train.py of the Free Spoken Digit Dataset.
//
//go:embed digits.onnx
var network []byte

// Rates are the settings of the knob, in Hz.
var Rates = []int{2000, 3000, 4000, 5000, 6000, rate}

// Pipeline implements pipeline.Pipeline on a stream.
type Pipeline struct {
	sound   []float32
	network *direct.Network
	spectra *spectra
	knobs   []oneadapt.Knob
	utility oneadapt.Utility
}

// Open is a pipeline on a stream of 8 kHz, of whole seconds. The backend is the caller's.
func Open(sound []float32, backend kernels.Backend) (*Pipeline, error) {
	if len(sound) == 0 || len(sound)%rate != 0 {
		return nil, fmt.Errorf("a stream of %d samples is not of whole seconds of %d", len(sound), rate)
	}
	net, err := openNetwork(backend)
	if err != nil {
		return nil, err
	}
	knob := oneadapt.Knob{Name: "sampling rate"}
	for _, r := range Rates {
		knob.Places = append(knob.Places, float64(r-Rates[0])/float64(rate-Rates[0]))
	}
	return &Pipeline{sound, net, newSpectra(), []oneadapt.Knob{knob}, oneadapt.UsualUtility()}, nil
}

// openNetwork reads the network, which comes in a file.
func openNetwork(backend kernels.Backend) (net *direct.Network, err error) {
	file, err := os.CreateTemp("", "digits-*.onnx")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	_, err = file.Write(network)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	return direct.Open(file.Name(), backend, dnn.Options{})
}

// Close frees the network's memory.
func (p *Pipeline) Close() { p.network.Close() }

// Name implements pipeline.Pipeline.
func (p *Pipeline) Name() string { return "audio" }

// Knobs implements pipeline.Pipeline.
func (p *Pipeline) Knobs() []oneadapt.Knob { return p.knobs }

// Parts implements pipeline.Pipeline.
func (p *Pipeline) Parts() bool { return false }

// Intervals implements pipeline.Pipeline.
func (p *Pipeline) Intervals() int { return len(p.sound) / rate }

// intervalSound is an interval's sound.
func (p *Pipeline) intervalSound(interval int) []float32 {
	return p.sound[interval*rate : (interval+1)*rate]
}

// sent is a second as it comes to the network.
type sent struct {
	bytes       int
	spectrogram []float32 // [bands][frames]
}

// Cost implements pipeline.Input: bytes of 16-bit PCM.
func (s *sent) Cost() float64 { return float64(s.bytes) }

// Prepare implements pipeline.Pipeline: the sound goes over at the rate of a setting, and the network has it at its own.
func (p *Pipeline) Prepare(interval int, c oneadapt.Config) (pipeline.Input, error) {
	low := sounds.Resample(p.intervalSound(interval), rate, Rates[c[0]])
	over := make([]float32, len(low))
	for i, v := range low {
		over[i] = float32(math.Round(math.MaxInt16*float64(max(-1, min(1, v))))) / math.MaxInt16
	}
	return &sent{2 * len(low), p.spectra.logSpectrogram(sounds.Resample(over, Rates[c[0]], rate))}, nil
}

// Infer implements pipeline.Pipeline: its results are of type []Digit.
func (p *Pipeline) Infer(in pipeline.Input) (pipeline.Result, error) {
	output, err := p.runNetwork(in.(*sent))
	if err != nil {
		return nil, err
	}
	found := []Digit{}
	for _, d := range decodeDigits(output.Data) {
		if float64(d.Score) >= p.utility.Threshold {
			found = append(found, d)
		}
	}
	return found, nil
}

var shape = []int{1, 1, bands, frames}

func (s *sent) tensorBytes() []byte {
	data := make([]byte, 0, 4*len(s.spectrogram))
	for _, v := range s.spectrogram {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return data
}

// runNetwork is the network's output: the probability of each digit, and of none, at each step.
func (p *Pipeline) runNetwork(s *sent) (direct.Output, error) {
	outputs, err := p.network.Run(shape, s.tensorBytes())
	if err != nil {
		return direct.Output{}, err
	}
	return outputs[0], nil
}

// Gradient implements pipeline.Pipeline: the parts are bands of frequency, as when digits are spoken in the next second cannot be told by
// this one. A lower rate takes a band away from all of a second, so that the derivatives of a band add up with their signs.
func (p *Pipeline) Gradient(in pipeline.Input) (*oneadapt.Map, error) {
	s := in.(*sent)
	output, err := p.runNetwork(s)
	if err != nil {
		return nil, err
	}
	m, seeds := oneadapt.NewMap(bands, 1), make([]float32, len(output.Data))
	for _, d := range decodeDigits(output.Data) {
		worth, slope := p.utility.Evaluate(float64(d.Score))
		m.Utility += float32(worth)
		seeds[d.Digit*steps+d.Step] = float32(slope)
	}
	output.Data = seeds
	derivatives, err := p.network.Gradient(shape, s.tensorBytes(), []direct.Output{output})
	if err != nil {
		return nil, err
	}
	for i, d := range derivatives {
		m.Values[i/frames] += d
	}
	for i, v := range m.Values {
		m.Values[i] = float32(math.Abs(float64(v)))
	}
	return m, nil
}

// Changes implements pipeline.Pipeline: the sizes of a gradient, times the mean differences of bands.
func (p *Pipeline) Changes(m *oneadapt.Map, against, in pipeline.Input) ([]float64, error) {
	if len(m.Values) != bands {
		return nil, fmt.Errorf("a gradient has %d parts, want %d bands", len(m.Values), bands)
	}
	a, b, sum := against.(*sent).spectrogram, in.(*sent).spectrogram, 0.0
	for i := range a {
		sum += float64(m.Values[i/frames]) * math.Abs(float64(a[i]-b[i])) / frames
	}
	return []float64{sum}, nil
}
