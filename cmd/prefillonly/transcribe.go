package main

import (
	"bytes"
	"context"
	"fmt"
	"mime/multipart"
	"path/filepath"

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
	format, silence string
}

// newTranscribeCommand makes `prefillonly transcribe`.
func newTranscribeCommand() *cobra.Command {
	var o transcribeOptions
	command := &cobra.Command{
		Use:   "transcribe FILE... --model DIR|FILE|--server URL",
		Short: "Write down what is said in files of sound",
		Long: `Prints what a network hears in WAV, FLAC, MP3, Ogg, MP4 and WebM files, on this machine's processor and without a server. The network, an
ONNX file or the only one of a folder, takes a waveform and says a symbol at each step (CTC); beside it lie its symbols (vocab.json or alphabet.txt) and, if it
does not take 16,000 samples a second, preprocessor_config.json. A server does the same at /v1/audio/transcriptions, for a model with pipeline: speech in
its configuration; with --server one that runs is asked.`,
		Example: `  prefillonly transcribe talk.flac --model ./wav2vec2
  prefillonly transcribe *.wav --model ./wav2vec2 --format srt
  prefillonly transcribe talk.flac --server http://localhost:8000`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error { return o.transcribeFiles(command, args) },
	}
	o.addFlags(command, "`DIR|FILE` of the network", "`FILE` of the symbols that are heard, one a line, or of JSON (default: that beside the network)")
	command.Flags().StringVar(&o.format, "format", "text", "what is printed: text, json, verbose_json, srt or vtt")
	command.Flags().StringVar(&o.silence, "silence", "", "`FILE` of a network such as silero-VAD's, which finds where nobody speaks: that is not heard")
	return command
}

func (o *transcribeOptions) transcribeFiles(command *cobra.Command, files []string) error {
	asked := transcriptions.Request{Format: o.format}
	if err := asked.CheckFormat(); err != nil {
		return cli.UsageError("--format: %v", err)
	}
	hear, end, err := o.openHearer(&asked)
	if err != nil {
		return err
	}
	defer end()
	return forEachFile(files, func(file string) error { return o.transcribeFile(command, hear, file, len(files) > 1) })
}

// hearFile makes of a file of sound what is printed.
type hearFile func(ctx context.Context, file []byte) ([]byte, error)

// openHearer opens the network, or a server that has it. The caller calls end.
func (o *transcribeOptions) openHearer(asked *transcriptions.Request) (hear hearFile, end func(), err error) {
	server, err := o.openServer()
	switch {
	case err != nil:
		return nil, nil, err
	case server != nil && o.silence != "":
		return nil, nil, cli.UsageError("--silence is a network of this process: leave it out with --server, whose configuration has its own")
	case server != nil:
		return func(ctx context.Context, file []byte) ([]byte, error) {
			return server.hear(ctx, o.model, o.format, file)
		}, func() {}, nil
	}
	if o.silence != "" {
		if o.networks.Silence, err = filepath.Abs(o.silence); err != nil {
			return nil, nil, err
		}
	}
	host, err := o.openPipeline(config.PipelineSpeech)
	if err != nil {
		return nil, nil, err
	}
	settings, err := modellist.SoundSettings(&host.model)
	if err != nil {
		host.Close()
		return nil, nil, err
	}
	p := &speech.Pipeline{Settings: settings, Alphabet: speech.NewAlphabet(host.symbols), Decode: roles.OpenSound, CutsSilence: host.networks[speech.Silence] != nil}
	return func(ctx context.Context, file []byte) ([]byte, error) {
		sound, err := p.Read(ctx, host, file)
		if err != nil {
			return nil, err
		}
		heard, err := p.Hear(ctx, host, sound)
		if err != nil {
			return nil, err
		}
		_, body := asked.Body(frontend.TranscriptOf(heard))
		return body, nil
	}, host.Close, nil
}

// hear has the server do so.
func (r *remote) hear(ctx context.Context, model, format string, file []byte) ([]byte, error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	fields := map[string]string{"response_format": format}
	if model != "" {
		fields["model"] = model
	}
	for name, value := range fields {
		_ = form.WriteField(name, value) // to memory
	}
	part, err := form.CreateFormFile("file", "sound")
	if err != nil {
		return nil, err
	}
	_, _ = part.Write(file)
	_ = form.Close()
	answer, err := r.post(ctx, "/v1/audio/transcriptions", form.FormDataContentType(), body.Bytes(), fileBytes)
	return []byte(cleanText(string(answer))), err
}

// transcribeFile prints what is said in a file, of one among several behind its name.
func (o *transcribeOptions) transcribeFile(command *cobra.Command, hear hearFile, file string, several bool) error {
	data, err := regular.ReadFile(file, maxSound)
	if err != nil {
		return err
	}
	body, err := hear(command.Context(), data)
	if err != nil {
		return err
	}
	if n := len(body); n == 0 || body[n-1] != '\n' {
		body = append(body, '\n')
	}
	if several && o.format == "text" {
		fmt.Fprintf(command.OutOrStdout(), "%s: ", file)
	}
	_, err = command.OutOrStdout().Write(body)
	return err
}
