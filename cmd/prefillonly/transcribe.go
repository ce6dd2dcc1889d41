package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/roles"
	"github.com/prefillonly/prefillonly/engine/api/transcriptions"
	"github.com/prefillonly/prefillonly/engine/frontend"
	"github.com/prefillonly/prefillonly/engine/speech"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/modellist"
	"github.com/prefillonly/prefillonly/internal/regular"
)

// maxSound is how long a file of sound may be, in bytes.
const maxSound = 1 << 30

// transcribeOptions are the flags of `prefillonly transcribe`.
type transcribeOptions struct {
	pipelineOptions
	format string
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
	o.addFlags(command, "`DIR|FILE` of the network", "`FILE` of the symbols that are heard, one a line, or of JSON (default: that beside the network)")
	command.Flags().StringVar(&o.format, "format", "text", "what is printed: text, json, verbose_json, srt or vtt")
	return command
}

func (o *transcribeOptions) transcribeFiles(command *cobra.Command, files []string) error {
	asked := transcriptions.Request{Format: o.format}
	if err := asked.CheckFormat(); err != nil {
		return cli.UsageError("--format: %v", err)
	}
	host, err := o.openPipeline(config.PipelineSpeech)
	if err != nil {
		return err
	}
	defer host.Close()
	settings, err := modellist.SoundSettings(&host.model)
	if err != nil {
		return err
	}
	p := &speech.Pipeline{Settings: settings, Alphabet: speech.NewAlphabet(host.symbols), Decode: roles.OpenSound}
	return forEachFile(files, func(file string) error { return o.transcribeFile(command, p, host, &asked, file, len(files) > 1) })
}

// transcribeFile prints what is said in a file, of one among several behind its name.
func (o *transcribeOptions) transcribeFile(command *cobra.Command, p *speech.Pipeline, host *localPipeline, asked *transcriptions.Request, file string, several bool) error {
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
