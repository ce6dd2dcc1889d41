package modellist

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/videoext/scene"
)

// TestWrongDecodersAreRefused: a decoder in a configuration that does not read its model's outputs is a mistake, which names the model, the decoder and
// the one that suits; other models are served.
func TestWrongDecodersAreRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "street.onnx")
	if err := os.WriteFile(file, scene.Detector, 0o600); err != nil {
		t.Fatal(err)
	}
	text := demoDir(t)
	for decoder, c := range map[string]struct {
		path  string
		image config.Image
		want  string
	}{
		"fastestdet": {file, config.Image{}, ""},
		"":           {text, config.Image{}, ""},
		"gfl":        {file, config.Image{}, "model m: decoder gfl: "},
		"yolox":      {file, config.Image{}, "outputs like these are read by fastestdet"},
		"nosuch":     {file, config.Image{}, `model m: decoder: there is no decoder "nosuch"; there are `},
		"ssd":        {text, config.Image{}, "model m: decoder ssd reads outputs of a network (ONNX), but the model is a checkpoint of text"},
		"yunet":      {file, config.Image{Size: []int{10, 20}}, "model m: decoder yunet: input "},
	} {
		m := config.Model{Names: []string{"m"}, Path: c.path, Decoder: decoder, Image: c.image}
		_, _, err := prepared(t, m)
		var mistake *Error
		if (err == nil) != (c.want == "") || err != nil && (!errors.As(err, &mistake) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %v, want %q", decoder, err, c.want)
		}
		if _, failed, err := prepared(t, m, config.Model{Names: []string{"other"}, Path: text}); err != nil || (failed[0] == nil) != (c.want == "") || failed[1] != nil {
			t.Errorf("%q beside another: %v, %v", decoder, failed, err)
		}
	}
}
