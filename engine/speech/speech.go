// Package speech makes text of sound by a network that hears symbols in it (CTC): it decodes and resamples a file, cuts long sound into
// windows that overlap, and makes words with their times of what the network says of each. That is pure and here; a Service has
// jobs of the pool hear the windows. It knows no HTTP.
package speech

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/prefillonly/prefillonly/engine/pipeline"
	"github.com/prefillonly/prefillonly/engine/sounds"
	"github.com/prefillonly/prefillonly/internal/processors"
)

// MaxSeconds is how long a sound may be.
const MaxSeconds = 1800

// Settings are how a network takes sound.
type Settings struct {
	Rate      int  // samples a second
	Normalize bool // each window has a mean of 0 and a variance of 1
}

// Sound is one that is read piece by piece, its channels mixed; io.EOF is its end.
type Sound interface {
	Rate() int
	Next(ctx context.Context, into []float32) (n int, err error)
	Close()
}

// Pipeline is a network with all that sound takes before and behind it. Its methods are safe for concurrent use.
type Pipeline struct {
	Settings Settings
	Alphabet *Alphabet
	// Decode opens a file that is no WAV of plain samples; nil: none is opened.
	Decode func(ctx context.Context, file []byte) (Sound, error)
	// CutsSilence has a network find silence, which the other one does not hear.
	CutsSilence bool
}

// Recognize is what the network of a pipeline is for.
const Recognize = "recognize"

// FileError is what is wrong with a file of sound.
type FileError struct{ error }

func newFileError(format string, args ...any) error { return &FileError{fmt.Errorf(format, args...)} }

func newTooLongError() error {
	return newFileError("the sound is longer than %d s, which is the limit; cut it", MaxSeconds)
}

// Unwrap is what the decoder said.
func (e *FileError) Unwrap() error { return e.error }

// About how long a byte of a file takes to be decoded and resampled.
const (
	wavePace    = 15 * time.Nanosecond
	encodedPace = 150 * time.Nanosecond
)

// group is how many windows are made and heard at a time, so that a long sound holds no more memory than these.
const group = 8

// Hear makes a transcript of sound at the network's rate.
func (p *Pipeline) Hear(ctx context.Context, host pipeline.Host, sound []float32) (*Transcript, error) {
	limits, err := host.TensorLimits(ctx, Recognize)
	if err != nil {
		return nil, err
	}
	n, err := newNetwork(p.Settings, limits)
	if err != nil {
		return nil, err
	}
	heard := &hearing{rate: p.Settings.Rate, length: len(sound), blank: int64(p.Alphabet.ctc.Blank)}
	spoken := []span{{0, len(sound)}}
	if p.CutsSilence {
		if spoken, err = p.findSpeech(ctx, host, sound); err != nil {
			return nil, err
		}
	}
	var windows []window
	for _, s := range spoken {
		windows = append(windows, n.windowsOf(s)...)
	}
	for len(windows) > 0 {
		next := windows[:min(group, len(windows))]
		windows = windows[len(next):]
		if err := p.hear(ctx, host, n, sound, next, heard); err != nil {
			return nil, err
		}
	}
	return p.Alphabet.transcript(heard)
}

// hear has the network hear some windows.
func (p *Pipeline) hear(ctx context.Context, host pipeline.Host, n *network, sound []float32, windows []window, heard *hearing) error {
	inputs, said := make([][]pipeline.Tensor, len(windows)), make([][]pipeline.Tensor, len(windows))
	err := host.RunStage(ctx, processors.Stage{Kind: "windows", Takes: time.Duration(len(windows)*n.longest()) * 2}, func() error {
		for i, w := range windows {
			inputs[i] = n.inputs(sound, w)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = host.RunPasses(ctx, Recognize, n.outputs[:], inputs, func(i int, outputs []pipeline.Tensor) error {
		said[i] = outputs
		return nil
	})
	if err != nil {
		return err
	}
	for i, w := range windows {
		if err := heard.add(w, said[i]); err != nil {
			return err
		}
	}
	return nil
}

// Read decodes a file of sound, at the network's rate. Its errors are a *FileError, those of the host and why ctx has ended.
func (p *Pipeline) Read(ctx context.Context, host pipeline.Host, file []byte) (out []float32, err error) {
	wav, err := sounds.ParseWAV(file)
	pace := wavePace
	switch {
	case err == nil && wav.Frames() > MaxSeconds*wav.Rate():
		return nil, newTooLongError()
	case err == nil:
	case err == sounds.ErrFormat && p.Decode != nil:
		pace = encodedPace
	default:
		return nil, &FileError{err}
	}
	stage := processors.Stage{Kind: "sound", Takes: time.Duration(len(file)) * pace, Yields: true}
	if wav != nil {
		if stage.Rest, err = p.plan(ctx, host, wav); err != nil {
			return nil, err
		}
	}
	err = host.RunStage(ctx, stage, func() error {
		var from Sound = wav
		if wav == nil {
			opened, err := p.Decode(ctx, file)
			if err != nil {
				return ended(ctx, err)
			}
			from = opened
		}
		defer from.Close()
		out, err = p.readAll(ctx, host, from)
		return err
	})
	return out, err
}

// plan tells the host what a sound that has its length in its head will ask of the network.
func (p *Pipeline) plan(ctx context.Context, host pipeline.Host, wav *sounds.Wave) (takes time.Duration, err error) {
	limits, err := host.TensorLimits(ctx, Recognize)
	if err != nil {
		return 0, err
	}
	n, err := newNetwork(p.Settings, limits)
	if err != nil {
		return 0, err
	}
	units := 0.0
	for _, w := range n.windows(int(int64(wav.Frames()) * int64(p.Settings.Rate) / int64(wav.Rate()))) {
		units += limits.Units(1, float64(w.size), false)
	}
	return host.PlanPass(Recognize, units)
}

// ended is why reading a file has failed: the context's end, or the file.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &FileError{err}
}

func (p *Pipeline) readAll(ctx context.Context, host pipeline.Host, from Sound) ([]float32, error) {
	rate, to := from.Rate(), p.Settings.Rate
	if err := sounds.CheckFormat(rate, 1); err != nil {
		return nil, &FileError{err}
	}
	resampler, piece := sounds.NewResampler(rate, to), make([]float32, rate)
	var out []float32
	for came := 0; ; {
		n, err := from.Next(ctx, piece)
		came += n
		switch {
		case err == io.EOF && came == 0:
			return nil, newFileError("the sound has no samples")
		case err == io.EOF:
			return resampler.End(out), nil
		case err != nil:
			return nil, ended(ctx, err)
		case came > MaxSeconds*rate:
			return nil, newTooLongError()
		}
		if need := resampler.Length(came) + 2*to; need > cap(out) { // End may make a little more
			size := max(2*cap(out), need)
			if err := host.HoldMemory(4 * int64(size-cap(out))); err != nil {
				return nil, err
			}
			out = append(make([]float32, 0, size), out...)
		}
		out = resampler.Append(out, piece[:n])
		if err := processors.Yield(ctx); err != nil {
			return nil, err
		}
	}
}
