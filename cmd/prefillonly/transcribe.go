package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/roles"
	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/api/transcriptions"
	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/dnn/direct"
	"github.com/prefillonly/prefillonly/engine/frontend"
	"github.com/prefillonly/prefillonly/engine/speech"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/modeldir"
	"github.com/prefillonly/prefillonly/internal/modellist"
	"github.com/prefillonly/prefillonly/internal/processors"
	"github.com/prefillonly/prefillonly/internal/regular"
	"github.com/prefillonly/prefillonly/kernels/cpu"
)

// maxSound is how long a file of sound may be, in bytes.
const maxSound = 1 << 30

// transcribeOptions are the flags of `prefillonly transcribe`.
type transcribeOptions struct {
	model, alphabet, format string
	threads                 int
}

// newTranscribeCommand makes `prefillonly transcribe`.
func newTranscribeCommand() *cobra.Command {
	var o transcribeOptions
	command := &cobra.Command{
		Use:   "transcribe FILE... --model DIR|FILE",
		Short: "Write down what is said in files of sound",
		Long: `Prints what a network hears in WAV, FLAC, MP3, Ogg, MP4 and WebM files, on this machine's processor and without a server. The network, an
ONNX file or the only one of a folder, takes a waveform and says a symbol at each step (CTC); beside it lie its symbols (vocab.json or alphabet.txt) and, if it
does not take 16,000 samples a second, preprocessor_config.json. A server does the same at /v1/audio/transcriptions, for a model with pipeline: speech in
its configuration.`,
		Example: `  prefillonly transcribe talk.flac --model ./wav2vec2
  prefillonly transcribe *.wav --model ./wav2vec2 --format srt`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error { return o.transcribeFiles(command, args) },
	}
	flags := command.Flags()
	flags.StringVar(&o.model, "model", "", "`DIR|FILE` of the network")
	flags.StringVar(&o.alphabet, "alphabet", "", "`FILE` of the symbols that are heard, one a line, or of JSON (default: that beside the network)")
	flags.StringVar(&o.format, "format", "text", "what is printed: text, json, verbose_json, srt or vtt")
	flags.IntVar(&o.threads, "threads", 0, "threads to compute with (default: all processors)")
	return command
}

func (o *transcribeOptions) transcribeFiles(command *cobra.Command, files []string) error {
	if o.model == "" {
		return cli.UsageError("say with --model which network hears")
	}
	asked := transcriptions.Request{Format: o.format}
	if err := asked.CheckFormat(); err != nil {
		return cli.UsageError("--format: %v", err)
	}
	cfg := config.Default()
	cfg.Models = []config.Model{{Path: o.model, Pipeline: config.PipelineSpeech, Alphabet: o.alphabet}}
	failed, err := modellist.Resolve(&cfg, modeldir.Cached)
	if err = errors.Join(append(failed, err)...); err != nil {
		return cli.ConfigError(err)
	}
	m := &cfg.Models[0]
	symbols, err := modellist.Alphabet(m)
	if err != nil {
		return err
	}
	settings, err := modellist.SoundSettings(m)
	if err != nil {
		return err
	}
	backend, err := cpu.New(cpu.Config{Threads: o.threads})
	if err != nil {
		return err
	}
	defer backend.Close()
	network, err := direct.Open(m.Path, backend, dnn.Options{WorkBytes: int64(m.WorkMemory), Best: true})
	if err != nil {
		return err
	}
	defer network.Close()
	pipeline := &speech.Pipeline{Settings: settings, Alphabet: speech.NewAlphabet(symbols), Decode: roles.OpenSound}
	var wrong error
	for _, file := range files {
		if err := o.transcribeFile(command, pipeline, &speechHost{network}, &asked, file, len(files) > 1); err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("%s: %w", file, err)) // the others are heard all the same
		}
	}
	return wrong
}

// transcribeFile prints what is said in a file, of one among several behind its name.
func (o *transcribeOptions) transcribeFile(command *cobra.Command, p *speech.Pipeline, host *speechHost, asked *transcriptions.Request, file string, several bool) error {
	data, err := regular.ReadFile(file, maxSound)
	if err != nil {
		return err
	}
	sound, err := p.Read(command.Context(), host, data)
	if err != nil {
		return err
	}
	heard, err := p.Hear(command.Context(), host, sound)
	if err != nil {
		return err
	}
	_, body := asked.Body(frontend.TranscriptOf(heard))
	if n := len(body); body[n-1] != '\n' {
		body = append(body, '\n')
	}
	if several && o.format == "text" {
		fmt.Fprintf(command.OutOrStdout(), "%s: ", file)
	}
	_, err = command.OutOrStdout().Write(body)
	return err
}

// speechHost runs a pipeline's network in this process.
type speechHost struct{ network *direct.Network }

// Do implements speech.Host.
func (h *speechHost) Do(_ context.Context, _ processors.Stage, f func() error) error { return f() }

// Hold implements speech.Host.
func (h *speechHost) Hold(int64) error { return nil }

// Limits implements speech.Host.
func (h *speechHost) Limits(context.Context) (*wire.TensorLimits, error) {
	return h.network.Limits(), nil
}

// Plan implements speech.Host.
func (h *speechHost) Plan(float64) (time.Duration, error) { return 0, nil }

// Infer implements speech.Host.
func (h *speechHost) Infer(ctx context.Context, outputs []string, inputs [][]speech.Tensor, accept func(i int, outputs []speech.Tensor) error) error {
	for i, in := range inputs {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var refs []engine.Ref
		var data [][]byte
		for _, t := range in {
			refs, data = append(refs, engine.Ref{Name: t.Name, Type: t.Type, Shape: t.Shape}), append(data, t.Data)
		}
		found, values, err := h.network.Infer(outputs, refs, data)
		if err != nil {
			return err
		}
		var said []speech.Tensor
		for i, f := range found {
			said = append(said, speech.Tensor{Name: f.Name, Type: f.Type, Shape: f.Shape, Data: values[i]})
		}
		if err := accept(i, said); err != nil {
			return err
		}
	}
	return nil
}
