//go:build cgo

package demo

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"github.com/prefillonly/prefillonly/engine/model/calibrate"
	"github.com/prefillonly/prefillonly/engine/weights/quantize"
)

// TestScoresInInt8 demands that the demo model, quantised, separates people as well.
func TestScoresInInt8(t *testing.T) {
	examples, dir := heldOut(t), extracted(t)
	s := newScorer(t, dir)
	want := areas(t, s, examples)
	for name, options := range map[string]quantize.Options{"W8A8": {Scheme: quantize.W8A8}, "W8A16": {Scheme: quantize.W8A16}, "W8A8, smoothed": s.smoothed(t, dir, examples),
		"W8A8, LM head too": {Scheme: quantize.W8A8, LMHead: true}, "W8A16, LM head too": {Scheme: quantize.W8A16, LMHead: true}} {
		if off := quantisedAreas(t, name, dir, options, examples, want); off > 0.005 {
			t.Errorf("%s: an AUC is %.4f off", name, off)
		}
	}
}

// quantisedAreas is how far areas of a copy are from those wanted, at worst.
func quantisedAreas(t *testing.T, name, dir string, options quantize.Options, examples []example, want []area) (worst float64) {
	t.Helper()
	int8 := filepath.Join(t.TempDir(), "int8")
	if _, err := quantize.Run(t.Context(), dir, int8, options); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s:", name)
	for i, a := range areas(t, newScorer(t, int8), examples) {
		worst = max(worst, math.Abs(a.area-want[i].area))
	}
	return worst
}

// smoothed calibrates with the prompts of a quarter of the examples.
func (s scorer) smoothed(t *testing.T, dir string, examples []example) quantize.Options {
	peaks := func(ctx context.Context) (map[string][]float32, error) {
		c, err := calibrate.Open(dir, newBackend(t))
		if err != nil {
			return nil, err
		}
		defer c.Close()
		for _, e := range examples[:len(examples)/4] {
			if err := c.Add(ctx, e.Prompt, s.encode(t, e.Prompt, true)); err != nil {
				return nil, err
			}
		}
		return c.Peaks(ctx)
	}
	return quantize.Options{Scheme: quantize.W8A8, Smoothing: &quantize.Smoothing{Strength: 0.5, Peaks: peaks}}
}
