//go:build cgo

package local

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/engine/inspect"
	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/merging/trainer"
	"github.com/prefillonly/prefillonly/merging/trainer/trainertest"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/media/x264"
	"github.com/prefillonly/prefillonly/videoext/scene"
)

// drawnClip writes frames of a street, two a second.
func drawnClip(t testing.TB, frames int) string {
	t.Helper()
	street := scene.New(320, 180, 1)
	var drawn []*media.Frame
	for i := range frames {
		f, _ := street.Frame(time.Duration(i) * time.Second / 2)
		drawn = append(drawn, f)
	}
	segment, err := x264.Encoder{}.Encode(context.Background(), drawn, media.Settings{Width: 320, Height: 180, Rate: 2, Quality: media.QP(20)})
	if err != nil {
		t.Fatal(err)
	}
	file, err := ffmpeg.MP4(segment)
	if err != nil {
		t.Fatal(err)
	}
	return written(t, "street.mp4", file)
}

func written(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// toys are the detector of drawn streets and, as a donor, one like it whose weights are others'.
func toys(t testing.TB, frames int) (models []trainer.Model, plan *merging.Plan) {
	t.Helper()
	var described []merging.Model
	clip := drawnClip(t, frames)
	for i, name := range []string{"street", "other"} {
		data := bytes.Clone(scene.Detector)
		if i > 0 {
			disturb(t, data)
		}
		path := written(t, name+".onnx", data)
		m, err := inspect.OpenLayers(path)
		if err != nil {
			t.Fatal(err)
		}
		models = append(models, trainer.Model{Name: name, File: path, Decoder: "fastestdet", Clip: clip})
		described = append(described, m)
	}
	return models, merging.NewPlan(described)
}

// disturb changes the weights in a file a little.
func disturb(t testing.TB, data []byte) {
	t.Helper()
	m, err := onnx.Parse(bytes.Clone(data))
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, l := range inspect.Layers(m.Graph) {
		at := bytes.Index(data, l.Weights.Const.Data)
		if at < 0 {
			t.Fatalf("the weights of layer %s are not in the file as they are in memory", l.Name)
		}
		for i := at; i < at+len(l.Weights.Const.Data); i += 4 {
			v := math.Float32frombits(binary.LittleEndian.Uint32(data[i:]))
			binary.LittleEndian.PutUint32(data[i:], math.Float32bits(v*float32(1+0.25*random.NormFloat64())))
		}
	}
}

func TestTrainer(t *testing.T) {
	models, plan := toys(t, 60)
	trainertest.Run(t, New(Options{}), trainertest.Pair{
		Models: models, Plan: plan, Epochs: 0.4, Rate: 0.03, Joint: func(merging.Group) bool { return true },
	})
}
