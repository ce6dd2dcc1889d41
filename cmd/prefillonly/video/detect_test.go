package video

import (
	"encoding/json"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/internal/cli"
)

// TestVideoDetect looks at pictures with a real network: what is no picture is named, and the others are looked at.
func TestVideoDetect(t *testing.T) {
	network := filepath.Join("..", "..", "..", "..", "shared", "data", "models", "road_segmentation_adas_0001.onnx")
	if dir := os.Getenv("PREFILLONLY_DATA"); dir != "" {
		network = filepath.Join(dir, "models", filepath.Base(network))
	}
	if _, err := os.Stat(network); err != nil {
		t.Skipf("no network to run: %v", err)
	}
	dir := t.TempDir()
	picture, other, list := filepath.Join(dir, "grey.png"), filepath.Join(dir, "text.jpg"), filepath.Join(dir, "models.yaml")
	if err := cli.WriteFile(picture, func(w *os.File) error { return png.Encode(w, image.NewGray(image.Rect(0, 0, 90, 50))) }); err != nil {
		t.Fatal(err)
	}
	entry := "models: [{name: road, path: " + network + ", image: {order: BGR}, decoder: segmentation}]\n"
	for file, text := range map[string]string{other: "no picture", list: entry} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "out")
	var b strings.Builder
	command := New(&cobra.Command{Use: "serve"})
	command.SetOut(&b)
	command.SetArgs([]string{"detect", "road", other, picture, "--config", list, "--out", out})
	if err := command.Execute(); err == nil || !strings.Contains(err.Error(), "text.jpg: it is neither JPEG nor PNG") {
		t.Errorf("a text is looked at: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(out, "grey.json"))
	if err != nil {
		t.Fatal(err)
	}
	var f found
	if err := json.Unmarshal(text, &f); err != nil || f.Width != 90 || f.Height != 50 || len(f.Classes) == 0 || f.Classes[0].Label == "" {
		t.Errorf("%s: %v", text, err)
	}
	drawn, err := os.Open(filepath.Join(out, "grey.found.jpg"))
	if err != nil {
		t.Fatal(err)
	}
	defer drawn.Close()
	if c, kind, err := image.DecodeConfig(drawn); err != nil || kind != "jpeg" || c.Width != 90 {
		t.Errorf("the picture is %s %v, %v", kind, c, err)
	}
	for want, args := range map[string][]string{
		"say with --decoder": {network, picture}, `no decoder "yolo"`: {network, picture, "--decoder", "yolo"},
		"--image: ": {network, picture, "--decoder", "ssd", "--image", "{order: X}"}, `has no model "roads"`: {"roads", picture, "--config", list},
	} {
		command := New(&cobra.Command{Use: "serve"})
		command.SetOut(&b)
		command.SetErr(&b)
		command.SetArgs(append([]string{"detect"}, args...))
		if err := command.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", args, err, want)
		}
	}
}
