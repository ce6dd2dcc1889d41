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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/engine/inspect"
	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/merging/mergingtest"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/media/x264"
	"github.com/prefillonly/prefillonly/videoext/scene"
)

// drawnClip writes frames of a street, two a second.
func drawnClip(t testing.TB, frames int) string {
	t.Helper()
	street := scene.New(640, 360, 1)
	var drawn []*media.Frame
	for i := range frames {
		f, _ := street.Frame(time.Duration(i) * time.Second / 2)
		drawn = append(drawn, f)
	}
	segment, err := x264.Encoder{}.Encode(context.Background(), drawn, media.Settings{Width: 640, Height: 360, Rate: 2, Quality: media.QP(20)})
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
func toys(t testing.TB, frames int) (models []merging.TrainedModel, plan *merging.Plan) {
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
		models = append(models, merging.TrainedModel{Name: name, File: path, Decoder: "fastestdet", Clip: clip})
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
	models, plan := toys(t, 40)
	mergingtest.Run(t, New(Options{}), mergingtest.Pair{
		Models: models, Plan: plan, Epochs: 0.4, Rate: 0.03, Joint: func(merging.Group) bool { return true },
	})
}

// TestThreadsDoNotChangeWeights holds what the package says of its bits.
func TestThreadsDoNotChangeWeights(t *testing.T) {
	models, plan := toys(t, 24)
	var first map[string][]float32
	for _, threads := range []int{1, 3} {
		in, err := New(Options{Threads: threads}).Open(context.Background(), models, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		if err := in.Tie([]merging.Tie{{Members: plan.Groups[0].Members, Donor: 1}}); err != nil {
			t.Fatal(err)
		}
		if _, err := in.Train(context.Background(), []int{0}, 1, 0.01); err != nil {
			t.Fatal(err)
		}
		now := in.Constants(0)
		if first == nil {
			first = now
		}
		for name, values := range now {
			if !slices.Equal(values, first[name]) {
				t.Errorf("%s has other elements by %d threads than by one", name, threads)
			}
		}
	}
}

// TestWhatCannotBeJudgedIsRefused with the figure, and so are a clip and a file that cannot be used, by name.
func TestWhatCannotBeJudgedIsRefused(t *testing.T) {
	few := merging.Score{Value: 1, Objects: 99, Frames: 30}
	m := model{TrainedModel: merging.TrainedModel{Name: "door", Clip: "door.mp4"}}
	if err := m.checkScore(few, merging.HeldOut); err == nil || err.Error() != "door.mp4: model door cannot be judged: 99 objects in the 30 frames held out, want 100" {
		t.Errorf("got %v", err)
	}
	few.Objects++
	if err := m.checkScore(few, merging.HeldOut); err != nil {
		t.Errorf("100 objects: %v", err)
	}
	models, _ := toys(t, 4)
	noClip, wrong := models[0], models[0]
	noClip.Clip, wrong.Decoder = "no such clip.mp4", "yolox"
	for want, m := range map[string]merging.TrainedModel{
		"got 4 frames, want 10 or more": models[0],
		"no such clip.mp4":              noClip,
		"decoder yolox":                 wrong,
	} {
		in, err := New(Options{Threads: 1}).Open(context.Background(), []merging.TrainedModel{m}, 1)
		if err == nil {
			_, err = in.Evaluate(context.Background(), 0, merging.HeldOut)
			in.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
