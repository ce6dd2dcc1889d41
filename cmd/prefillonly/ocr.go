package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/dnn/direct"
	"github.com/prefillonly/prefillonly/engine/ocr"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/modeldir"
	"github.com/prefillonly/prefillonly/internal/modellist"
	"github.com/prefillonly/prefillonly/internal/processors"
	"github.com/prefillonly/prefillonly/internal/regular"
	"github.com/prefillonly/prefillonly/kernels/cpu"
)

// maxPicture is how long a picture's file may be.
const maxPicture = 256 << 20

// ocrOptions are the flags of `prefillonly ocr`.
type ocrOptions struct {
	model, alphabet string
	json            bool
	threads         int
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
	flags := command.Flags()
	flags.StringVar(&o.model, "model", "", "`DIR` with the networks")
	flags.StringVar(&o.alphabet, "alphabet", "", "`FILE` of the symbols that are recognized, one a line (default: those that the network's file names)")
	flags.BoolVar(&o.json, "json", false, "print a JSON object for each picture, with lines, scores and boxes")
	flags.IntVar(&o.threads, "threads", 0, "threads to compute with (default: all processors)")
	return command
}

func (o *ocrOptions) readPictures(command *cobra.Command, pictures []string) error {
	if o.model == "" {
		return cli.UsageError("say with --model which folder has the networks")
	}
	cfg := config.Default()
	cfg.Models = []config.Model{{Path: o.model, Pipeline: config.PipelineOCR, Alphabet: o.alphabet}}
	failed, err := modellist.Resolve(&cfg, modeldir.Cached)
	if err = errors.Join(append(failed, err)...); err != nil {
		return cli.ConfigError(err)
	}
	symbols, err := modellist.Alphabet(&cfg.Models[0])
	if err != nil {
		return err
	}
	host, err := openOCRHost(&cfg, o.threads)
	if err != nil {
		return err
	}
	defer host.Close()
	pipeline := ocr.Pipeline{Alphabet: ocr.NewAlphabet(symbols), Directs: host.networks[ocr.Direct] != nil}
	var wrong error
	for _, picture := range pictures {
		if err := o.readPicture(command, &pipeline, host, picture, len(pictures) > 1); err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("%s: %w", picture, err)) // the others are read all the same
		}
	}
	return wrong
}

// readPicture prints the text of a picture, of one among several behind its name.
func (o *ocrOptions) readPicture(command *cobra.Command, p *ocr.Pipeline, host *ocrHost, picture string, several bool) error {
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

// ocrHost runs a pipeline's networks in this process.
type ocrHost struct {
	backend  *cpu.Backend
	networks map[string]*direct.Network
}

func openOCRHost(cfg *config.Config, threads int) (*ocrHost, error) {
	backend, err := cpu.New(cpu.Config{Threads: threads})
	if err != nil {
		return nil, err
	}
	h := &ocrHost{backend: backend, networks: map[string]*direct.Network{}}
	first := &cfg.Models[0]
	for i, part := range config.Pipelines[config.PipelineOCR] {
		for at := range cfg.Models {
			m := &cfg.Models[at]
			if m.Names[0] != config.NetworkName(first.Names[0], i, part) {
				continue
			}
			if h.networks[part.Key], err = direct.Open(m.Path, backend, dnn.Options{WorkBytes: int64(m.WorkMemory)}); err != nil {
				h.Close()
				return nil, err
			}
		}
	}
	return h, nil
}

// Close frees the networks.
func (h *ocrHost) Close() {
	for _, n := range h.networks {
		if n != nil {
			n.Close()
		}
	}
	h.backend.Close()
}

// Plan implements ocr.Host.
func (h *ocrHost) Plan(context.Context, string, []int) (time.Duration, error) { return 0, nil }

// Do implements ocr.Host.
func (h *ocrHost) Do(_ context.Context, _ processors.Stage, f func() error) error { return f() }

// Hold implements ocr.Host.
func (h *ocrHost) Hold(int64) error { return nil }

// Release implements ocr.Host.
func (h *ocrHost) Release(int64) {}

// Infer implements ocr.Host.
func (h *ocrHost) Infer(ctx context.Context, network string, inputs []ocr.Tensor, accept func(i int, outputs []ocr.Tensor) error) error {
	for i, in := range inputs {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		outputs, err := h.networks[network].Run(in.Shape, in.Data)
		if err != nil {
			return err
		}
		if len(outputs) == 0 {
			return fmt.Errorf("the network that is to %s has no output of floating-point numbers", network)
		}
		first := outputs[0]
		found := []ocr.Tensor{{Shape: first.Shape, Data: bytesOf(first.Data)}}
		if network == ocr.Recognize {
			found = bestSymbols(first)
		}
		if err := accept(i, found); err != nil {
			return err
		}
	}
	return nil
}

func bytesOf(values []float32) (data []byte) {
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return data
}

// bestSymbols are the likeliest symbol of each step, and how likely it is.
func bestSymbols(out direct.Output) []ocr.Tensor {
	symbols := out.Shape[len(out.Shape)-1]
	var best, values ocr.Tensor
	for row := out.Data; len(row) > 0; row = row[symbols:] {
		at := 0
		for i, v := range row[:symbols] {
			if v > row[at] {
				at = i
			}
		}
		best.Data = binary.LittleEndian.AppendUint64(best.Data, uint64(at))
		values.Data = binary.LittleEndian.AppendUint32(values.Data, math.Float32bits(row[at]))
	}
	return []ocr.Tensor{best, values}
}
