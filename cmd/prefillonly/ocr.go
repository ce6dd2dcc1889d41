package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/engine/api/recognition"
	"github.com/prefillonly/prefillonly/engine/ocr"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/regular"
)

// maxPicture is how long a picture's file may be.
const maxPicture = 256 << 20

// ocrOptions are the flags of `prefillonly ocr`.
type ocrOptions struct {
	pipelineOptions
	json bool
}

// newOCRCommand makes `prefillonly ocr`.
func newOCRCommand() *cobra.Command {
	var o ocrOptions
	command := &cobra.Command{
		Use:   "ocr PICTURE... --model DIR|--server URL",
		Short: "Read the text of pictures",
		Long: `Finds the lines of text in JPEG and PNG files and prints them, on this machine's processor and without a server. The folder has networks
of PP-OCR as ONNX files, by det, rec and, if lines may be upside down, cls in their names: such as the folder models of the Python package
rapidocr. A server does the same at /v1/ocr, for a model with pipeline: ocr in its configuration; with --server one that runs is asked.`,
		Example: `  prefillonly ocr page.png --model ./rapidocr/models
  prefillonly ocr *.jpg --model ./rapidocr/models --json > lines.jsonl
  prefillonly ocr page.png --server http://localhost:8000`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error { return o.readPictures(command, args) },
	}
	o.addFlags(command, "`DIR` with the networks", "`FILE` of the symbols that are recognized, one a line (default: those that the network's file names)")
	command.Flags().BoolVar(&o.json, "json", false, "print a JSON object for each picture, with lines, scores and boxes")
	return command
}

func (o *ocrOptions) readPictures(command *cobra.Command, pictures []string) error {
	read, end, err := o.openReader()
	if err != nil {
		return err
	}
	defer end()
	return forEachFile(pictures, func(picture string) error { return o.readPicture(command, read, picture, len(pictures) > 1) })
}

// readLines is how lines of a picture are found.
type readLines func(ctx context.Context, picture []byte) ([]ocr.Line, error)

// openReader opens the networks, or a server that has them. The caller calls end.
func (o *ocrOptions) openReader() (read readLines, end func(), err error) {
	server, err := o.openServer()
	switch {
	case err != nil:
		return nil, nil, err
	case server != nil:
		return func(ctx context.Context, picture []byte) ([]ocr.Line, error) {
			return server.readLines(ctx, o.model, picture)
		}, func() {}, nil
	}
	host, err := o.openPipeline(config.PipelineOCR)
	if err != nil {
		return nil, nil, err
	}
	p := ocr.Pipeline{Alphabet: ocr.NewAlphabet(host.symbols), Directs: host.networks[ocr.Direct] != nil}
	return func(ctx context.Context, picture []byte) ([]ocr.Line, error) { return p.Read(ctx, host, picture) }, host.Close, nil
}

// readLines has the server find them.
func (r *remote) readLines(ctx context.Context, model string, picture []byte) ([]ocr.Line, error) {
	body, err := json.Marshal(map[string]string{"model": model, "image": "data:;base64," + base64.StdEncoding.EncodeToString(picture)})
	if err != nil {
		return nil, err
	}
	answer, err := r.post(ctx, "/v1/ocr", "application/json", body, fileBytes)
	if err != nil {
		return nil, err
	}
	var said recognition.Read
	if err := json.Unmarshal(answer, &said); err != nil {
		return nil, fmt.Errorf("invalid answer of %s/v1/ocr: want the text of a picture: %w", r.base, err)
	}
	var lines []ocr.Line
	for _, l := range said.Lines {
		l.Text = cleanText(l.Text)
		lines = append(lines, ocr.Line(l))
	}
	return lines, nil
}

// readPicture prints the text of a picture, of one among several behind its name.
func (o *ocrOptions) readPicture(command *cobra.Command, read readLines, picture string, several bool) error {
	data, err := regular.ReadFile(picture, maxPicture)
	if err != nil {
		return err
	}
	lines, err := read(command.Context(), data)
	if err != nil {
		return err
	}
	out := command.OutOrStdout()
	if o.json {
		return json.NewEncoder(out).Encode(map[string]any{"picture": picture, "text": ocr.Text(lines), "lines": append([]ocr.Line{}, lines...)})
	}
	if several {
		fmt.Fprintf(out, "%s:\n", picture)
	}
	if text := ocr.Text(lines); text != "" {
		_, err = io.WriteString(out, text+"\n")
	}
	return err
}
