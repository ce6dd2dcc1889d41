package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

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
		Use:   "ocr PICTURE... --model DIR",
		Short: "Read the text of pictures",
		Long: `Finds the lines of text in JPEG and PNG files and prints them, on this machine's processor and without a server. The folder has networks
of PP-OCR as ONNX files, by det, rec and, if lines may be upside down, cls in their names: such as the folder models of the Python package
rapidocr. A server does the same at /v1/ocr, for a model with pipeline: ocr in its configuration.`,
		Example: `  prefillonly ocr page.png --model ./rapidocr/models
  prefillonly ocr *.jpg --model ./rapidocr/models --json > lines.jsonl`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error { return o.readPictures(command, args) },
	}
	o.addFlags(command, "`DIR` with the networks", "`FILE` of the symbols that are recognized, one a line (default: those that the network's file names)")
	command.Flags().BoolVar(&o.json, "json", false, "print a JSON object for each picture, with lines, scores and boxes")
	return command
}

func (o *ocrOptions) readPictures(command *cobra.Command, pictures []string) error {
	host, err := o.openPipeline(config.PipelineOCR)
	if err != nil {
		return err
	}
	defer host.Close()
	p := ocr.Pipeline{Alphabet: ocr.NewAlphabet(host.symbols), Directs: host.networks[ocr.Direct] != nil}
	return forEachFile(pictures, func(picture string) error { return o.readPicture(command, &p, host, picture, len(pictures) > 1) })
}

// readPicture prints the text of a picture, of one among several behind its name.
func (o *ocrOptions) readPicture(command *cobra.Command, p *ocr.Pipeline, host *localPipeline, picture string, several bool) error {
	data, err := regular.ReadFile(picture, maxPicture)
	if err != nil {
		return err
	}
	lines, err := p.Read(command.Context(), host, data)
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
