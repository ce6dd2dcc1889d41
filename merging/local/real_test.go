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
	"github.com/prefillonly/prefillonly/merging/trainer"
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
func pair(dir string) []trainer.Model {
	clip := filepath.Join(dir, "video", "indoor_persons_768x432.mp4")
	return []trainer.Model{
		{Name: "person", File: filepath.Join(dir, "models", "light_person_192.onnx"), Decoder: "yolox", Clip: clip},
		{Name: "yolox", File: filepath.Join(dir, "models", "yolox_nano_416.onnx"), Decoder: "yolox", Clip: clip},
	}
}

// allTied ties all equal layers of models, with a donor.
func allTied(t testing.TB, models []trainer.Model, donor int) (ties []trainer.Tie) {
	var described []merging.Model
	for _, m := range models {
		d, err := inspect.OpenLayers(m.File)
		if err != nil {
			t.Fatal(err)
		}
		described = append(described, d)
	}
	for _, g := range merging.NewPlan(described).Groups {
		ties = append(ties, trainer.Tie{Members: g.Members, Donor: donor})
	}
	return ties
}

func TestPersonAdopts(t *testing.T) {
	models := pair(data(t))
	ctx := context.Background()
	opened, err := New(Options{}).Open(ctx, models, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	began := time.Now()
	evaluate := func() {
		for _, split := range []trainer.Split{trainer.HeldOut, trainer.HeldOutDark, trainer.HeldOutMirrored, trainer.HeldOutNoisy} {
			s, err := opened.Evaluate(ctx, 0, split)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%v: %+v", time.Since(began), s)
		}
	}
	evaluate()
	ties := allTied(t, models, 1)
	t.Log(len(ties))
	if err := opened.Tie(ties); err != nil {
		t.Fatal(err)
	}
	evaluate()
	for range 4 {
		began = time.Now()
		losses, err := opened.Train(ctx, 0.5, 0.003)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("losses %v in %v", losses, time.Since(began))
		evaluate()
	}
}
