package model

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/model/calibrate"
	"github.com/prefillonly/prefillonly/engine/text"
	"github.com/prefillonly/prefillonly/engine/tokenizer"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/regular"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// calibration runs the model in dir over the prompts of a file.
type calibration struct {
	dir       string
	file      *os.File
	tokenizer *tokenizer.Tokenizer // nil until there is a text
	calibrate.Counts
}

// openCalibration opens a file of prompts.
func openCalibration(dir, path string) (*calibration, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--calibration: %w", err)
	}
	return &calibration{dir: dir, file: f}, nil
}

func (c *calibration) close() {
	_ = c.file.Close()
	if c.tokenizer != nil {
		c.tokenizer.Close()
	}
}

// measurePeaks is quantize.Smoothing's Peaks.
func (c *calibration) measurePeaks(ctx context.Context) (map[string][]float32, error) {
	info, err := c.file.Stat()
	if err != nil {
		return nil, err
	}
	show := cli.ProgressBar("calibrating")
	if show == nil {
		show = func(int64, int64) {}
	}
	show(0, info.Size())
	defer show(info.Size(), info.Size())
	var backend kernels.Backend = ref.New()
	if fast, err := cpu.New(cpu.Config{}); err == nil {
		backend = fast
	}
	defer backend.Close()
	seen, err := calibrate.Open(c.dir, backend)
	if err != nil {
		return nil, err
	}
	defer seen.Close()
	err = calibrate.Lines(c.file, c.file.Name(), func(place string, l calibrate.Line) error {
		ids, err := c.promptTokens(ctx, l)
		if err != nil {
			return fmt.Errorf("%s: %w", place, err)
		}
		if err := seen.Add(ctx, place, ids); err != nil {
			return err
		}
		show(l.End, info.Size())
		return nil
	})
	if err != nil {
		return nil, err
	}
	peaks, err := seen.Peaks(ctx)
	c.Counts = seen.Counts
	return peaks, err
}

// promptTokens are those of a prompt, as the server makes them of it.
func (c *calibration) promptTokens(ctx context.Context, l calibrate.Line) ([]engine.TokenID, error) {
	if l.Tokens != nil {
		return l.Tokens, nil
	}
	if c.tokenizer == nil {
		var err error
		if c.tokenizer, err = tokenizer.Open(c.dir); err != nil {
			return nil, err
		}
	}
	prompt, bare := l.Text, true
	if l.Messages != nil {
		var err error
		if prompt, err = c.tokenizer.RenderChat(l.Messages, text.ChatOptions{AddGenerationPrompt: true}); err != nil {
			return nil, err
		}
		bare = false
	}
	ids, err := c.tokenizer.Encode(ctx, "", prompt, bare)
	if err == nil && len(ids) == 0 {
		err = errors.New("its prompt has no tokens")
	}
	return ids, err
}

// String says what was computed.
func (c *calibration) String() string {
	text := fmt.Sprintf("calibrated with %d prompts, %d tokens", c.Prompts, c.Tokens)
	if c.Cut > 0 {
		text += fmt.Sprintf(" (%d prompts were cut off at the end)", c.Cut)
	}
	return text
}
