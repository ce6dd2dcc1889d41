//go:build cgo

package local

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/inspect"
	"github.com/prefillonly/prefillonly/merging"
)

func data(t testing.TB) string {
	dir := os.Getenv("PREFILLONLY_DATA")
	if dir == "" {
		dir = "../../../shared/data"
	}
	if _, err := os.Stat(filepath.Join(dir, "models", "light_person_192.onnx")); err != nil {
		t.Skipf("no networks to train: %v", err)
	}
	return dir
}

// pair are a person detector and the larger one whose weights it is to adopt.
func pair(dir string) []merging.TrainedModel {
	clip := filepath.Join(dir, "video", "indoor_persons_768x432.mp4")
	return []merging.TrainedModel{
		{Name: "person", File: filepath.Join(dir, "models", "light_person_192.onnx"), Decoder: "yolox", Clip: clip},
		{Name: "yolox", File: filepath.Join(dir, "models", "yolox_nano_416.onnx"), Decoder: "yolox", Clip: clip},
	}
}

// allTied ties all equal layers of models, with a donor.
func allTied(t testing.TB, models []merging.TrainedModel, donor int) (ties []merging.Tie) {
	var described []merging.Model
	for _, m := range models {
		d, err := inspect.OpenLayers(m.File)
		if err != nil {
			t.Fatal(err)
		}
		described = append(described, d)
	}
	for _, g := range merging.NewPlan(described).Groups {
		ties = append(ties, merging.Tie{Members: g.Members, Donor: donor})
	}
	return ties
}

// TestPersonDetectorAdoptsTheBulk: a network for persons that has the weights of one for eighty classes in the 60 largest of 110 equal layers, 96.6 % of their
// bytes, finds what its own weights find, also at half the light, mirrored and in noise, with its biases, depthwise layers and heads trained on one clip.
func TestPersonDetectorAdoptsTheBulk(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains for a minute")
	}
	models, ctx := pair(data(t)), context.Background()
	in, err := New(Options{Batch: 4}).Open(ctx, models, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	ties := allTied(t, models, 1)
	if len(ties) != 110 {
		t.Fatalf("%d groups, want 110", len(ties))
	}
	if err := in.Tie(ties[:60]); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for _, part := range []float64{1, 0.8, 0.5, 0.25} {
		losses, err := in.Train(ctx, []int{0}, 0.5, part*AdoptionRate)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%.0f s: loss %.2f", time.Since(began).Seconds(), losses[0])
	}
	for _, c := range []struct {
		name  string
		split merging.Split
		least float64
	}{{"as they are", merging.HeldOut, 0.92}, {"half as bright", merging.HeldOutDark, 0.9}, {"mirrored", merging.HeldOutMirrored, 0.85}, {"noisy", merging.HeldOutNoisy, 0.85}} {
		s, err := in.Evaluate(ctx, 0, c.split)
		if err != nil || s.Value < c.least {
			t.Errorf("%s: F1 is %.3f, %v; want %.2f", c.name, s.Value, err, c.least)
		}
		t.Logf("%s: F1 %.3f (%.3f to %.3f), %d objects in %d frames", c.name, s.Value, s.Low, s.High, s.Objects, s.Frames)
	}
	if n := len(in.Constants(1)); n > 0 {
		t.Errorf("%d constants of the donor changed", n)
	}
}
