//go:build cgo

package scene

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/videoext"
	"github.com/prefillonly/prefillonly/videoext/accuracy"
	"github.com/prefillonly/prefillonly/videoext/detect"
	"github.com/prefillonly/prefillonly/videoext/vision"
)

// TestDetector: the network finds what is drawn in a street that it was not trained on.
func TestDetector(t *testing.T) {
	file := filepath.Join(t.TempDir(), "detector.onnx")
	if err := os.WriteFile(file, Detector, 0o600); err != nil {
		t.Fatal(err)
	}
	backend, err := cpu.New(cpu.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	decoder, err := vision.Find("fastestdet")
	if err != nil {
		t.Fatal(err)
	}
	d, err := detect.Open(file, backend, detect.Options{Image: detect.Usual("fastestdet"), Decoder: decoder})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s := New(640, 360, 1)
	var truth, found []videoext.Findings
	for second := range 8 {
		f, boxes := s.Frame(time.Duration(second) * 3 * time.Second)
		r, err := d.Detect(images.FromImage(f.RGBA()))
		if err != nil {
			t.Fatal(err)
		}
		truth = append(truth, videoext.Findings{Detections: boxes})
		found = append(found, r.Findings(vision.Size{Height: 360, Width: 640}))
	}
	rule := accuracy.Rule{Found: 0.5, IoU: 0.5}
	if f1 := rule.F1(truth, found); f1 < 0.8 {
		t.Errorf("F1 is %.3f; it is 0.87 on the streets of tools/train/scene/train.py", f1)
	} else {
		t.Logf("F1 %.3f", f1)
	}
}
