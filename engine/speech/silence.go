package speech

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/pipeline"
	"github.com/prefillonly/prefillonly/engine/sounds"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/processors"
)

// Silence is what the network of a pipeline is for that says where nobody speaks.
const Silence = "silence"

// What is taken for speech, and is heard.
const (
	likelySpeech = 0.5
	padSeconds   = 0.3 // before and behind speech
	gapSeconds   = 0.6 // a shorter pause is heard with what is around it
)

// A sound is looked at in tracks side by side, each window of which needs what came of the one before.
const (
	mostTracks   = 64
	trackSeconds = 8 // of one of several, at least
)

// The windows that silero-VAD takes.
const (
	silenceRate   = 16000
	silenceWindow = 512
	silenceBefore = 64 // samples of the window before
)

// span is a part of a sound, in samples.
type span struct{ from, to int }

// detector is how sound goes into a network such as silero-VAD's: window by window, with the samples before it, a state and the rate.
type detector struct {
	sound, state, told wire.TensorSpec
	outputs            [2]string // the likelihood of speech, and the next state
}

// newDetector says how a network finds silence; an error of engine.CodeUnavailable that it does not.
func newDetector(limits *wire.TensorLimits) (*detector, error) {
	d := new(detector)
	for _, in := range limits.Inputs {
		switch {
		case in.Type == engine.FP32 && len(in.Shape) == 2:
			d.sound = in
		case in.Type == engine.FP32 && len(in.Shape) == 3 && in.Shape[0] > 0 && in.Shape[2] > 0:
			d.state = in
		case in.Type == engine.Int64:
			d.told = in
		}
	}
	if len(limits.Inputs) != 3 || d.sound.Name == "" || d.state.Name == "" || d.told.Name == "" || len(limits.Outputs) < 2 {
		return nil, engine.Errorf(engine.CodeUnavailable, "the network does not find silence: want inputs of FP32 [tracks, samples], a state of FP32 [layers, tracks, width] and the rate as INT64, and outputs of a likelihood and the next state, as silero-VAD has them")
	}
	d.outputs = [2]string{limits.Outputs[0].Name, limits.Outputs[1].Name}
	return d, nil
}

// findSpeech are the parts of a sound in which somebody may speak, with a little around them.
func (p *Pipeline) findSpeech(ctx context.Context, host pipeline.Host, sound []float32) ([]span, error) {
	limits, err := host.TensorLimits(ctx, Silence)
	if err != nil {
		return nil, err
	}
	d, err := newDetector(limits)
	if err != nil {
		return nil, err
	}
	length := len(sound)
	if p.Settings.Rate != silenceRate {
		size := (length/p.Settings.Rate + 2) * silenceRate
		if err := host.HoldMemory(4 * int64(size)); err != nil {
			return nil, err
		}
		defer host.ReleaseMemory(4 * int64(size))
		if sound, err = p.resample(ctx, host, sound, size); err != nil {
			return nil, err
		}
	}
	tracks := max(1, min(mostTracks, len(sound)/(trackSeconds*silenceRate)))
	steps := (len(sound) + tracks*silenceWindow - 1) / (tracks * silenceWindow)
	likely := make([]float32, tracks*steps) // of each window of the sound
	state := make([]byte, 4*d.state.Shape[0]*tracks*d.state.Shape[2])
	for step := range steps {
		inputs := [][]pipeline.Tensor{d.inputs(sound, tracks, steps, step, state)}
		err := host.RunPasses(ctx, Silence, d.outputs[:], inputs, func(_ int, outputs []pipeline.Tensor) error {
			if len(outputs[0].Data) != 4*tracks || len(outputs[1].Data) != len(state) {
				return engine.Errorf(engine.CodeUnavailable, "the network that finds silence answers %d and %d bytes, want %d and %d", len(outputs[0].Data), len(outputs[1].Data), 4*tracks, len(state))
			}
			for track := range tracks {
				likely[track*steps+step] = math.Float32frombits(binary.LittleEndian.Uint32(outputs[0].Data[4*track:]))
			}
			state = outputs[1].Data
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return spans(likely, p.Settings.Rate, length), nil
}

// resample makes of sound what the network takes that finds silence, second by second.
func (p *Pipeline) resample(ctx context.Context, host pipeline.Host, sound []float32, size int) (out []float32, err error) {
	stage := processors.Stage{Kind: "silence", Takes: time.Duration(len(sound)) * 2 * wavePace, Yields: true}
	err = host.RunStage(ctx, stage, func() error {
		resampler := sounds.NewResampler(p.Settings.Rate, silenceRate)
		out = make([]float32, 0, size)
		for piece := range slices.Chunk(sound, p.Settings.Rate) {
			out = resampler.Append(out, piece)
			if err := processors.Yield(ctx); err != nil {
				return err
			}
		}
		out = resampler.End(out)
		return nil
	})
	return out, err
}

// inputs are those of a window of each track.
func (d *detector) inputs(sound []float32, tracks, steps, step int, state []byte) []pipeline.Tensor {
	data := make([]byte, 0, 4*tracks*(silenceBefore+silenceWindow))
	for track := range tracks {
		from := (track*steps + step) * silenceWindow
		for i := from - silenceBefore; i < from+silenceWindow; i++ {
			v := float32(0)
			if i >= 0 && i < len(sound) {
				v = sound[i]
			}
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
	}
	return []pipeline.Tensor{
		{Name: d.sound.Name, Type: engine.FP32, Shape: []int{tracks, silenceBefore + silenceWindow}, Data: data},
		{Name: d.state.Name, Type: engine.FP32, Shape: []int{d.state.Shape[0], tracks, d.state.Shape[2]}, Data: state},
		{Name: d.told.Name, Type: engine.Int64, Shape: d.toldShape(), Data: binary.LittleEndian.AppendUint64(nil, uint64(silenceRate))},
	}
}

// toldShape is that of one number.
func (d *detector) toldShape() []int { return slices.Repeat([]int{1}, len(d.told.Shape)) }

// spans are the windows that are likely speech, in samples of a sound of a rate and length, padded and without short pauses.
func spans(likely []float32, rate, length int) (all []span) {
	pad := int(padSeconds * float64(rate))
	gap := int(gapSeconds * float64(rate))
	for i, v := range likely {
		s := span{max(0, i*silenceWindow*rate/silenceRate-pad), min(length, (i+1)*silenceWindow*rate/silenceRate+pad)}
		switch last := len(all) - 1; {
		case v < likelySpeech || s.from >= s.to:
		case last >= 0 && s.from-all[last].to < gap:
			all[last].to = s.to
		default:
			all = append(all, s)
		}
	}
	return all
}
