//go:build cgo

package features

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
	"github.com/prefillonly/prefillonly/videoext/pipeline/pipelinetest"
)

// data is a file of the shared data.
func data(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("PREFILLONLY_DATA")
	if dir == "" {
		dir = "../../../../shared/data"
	}
	file := filepath.Join(dir, name)
	if _, err := os.Stat(file); err != nil {
		t.Skipf("no shared data: %v", err)
	}
	return file
}

// frames are the first of a clip.
func frames(t testing.TB, name string, rate float64, from, n int) (list []*media.Frame) {
	t.Helper()
	source, err := ffmpeg.Open(context.Background(), data(t, name), ffmpeg.Options{Rate: rate})
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	for i := 0; i < from+n; i++ {
		f, err := source.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if i >= from {
			list = append(list, f)
		}
	}
	return list
}

func detector(t testing.TB) *Detector {
	t.Helper()
	file := data(t, "models/light_person_192.onnx")
	backend, err := cpu.New(cpu.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(backend.Close)
	d, err := Open(file, backend, "yolox", images.Options{BGR: true, Letterbox: true, Grey: 114, Height: 192, Width: 320})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

const clip = "video/indoor_persons_768x432.mp4"

func TestSuite(t *testing.T) {
	d := detector(t)
	list := frames(t, clip, 2, 20, 12)
	for _, s := range Sensors() {
		r, err := Record(d, s, list, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, side := range []int{2, 8} {
			p, err := New(r, side)
			if err != nil {
				t.Fatal(err)
			}
			pipelinetest.Run(t, p)
		}
	}
}

// random is features of no network.
func random(seed uint64) *volume {
	r := rand.New(rand.NewPCG(seed, 1))
	var maps [][]float32
	for range 3 {
		m := make([]float32, 4*7*9)
		for i := range m {
			m[i] = max(-0.3, float32(r.NormFloat64()))
		}
		maps = append(maps, m)
	}
	return quantiseFeatures(maps, 4, 7, 9)
}

// TestCodec: what is decoded is what the sensor takes it for, at any settings, and a finer quantiser is never further off than half its step.
func TestCodec(t *testing.T) {
	for seed := range uint64(50) {
		v, r, g := random(seed), rand.New(rand.NewPCG(seed, 2)), grid{1 + int(seed%4)}
		settings := make([]int, g.blockCount())
		for i := range settings {
			settings[i] = r.IntN(len(steps))
		}
		data, shares, err := v.encodeFeatures(g, settings)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeVolume(data, g, v.frames, v.channels, v.height, v.width)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, share := range shares {
			sum += share
		}
		if math.Abs(sum-1) > 1e-9 || len(shares) != g.blockCount() {
			t.Fatalf("%d blocks take parts of %v", g.blockCount(), shares)
		}
		if want := v.reconstructVolume(g, settings); !bytes.Equal(got.levels, want.levels) || got.unit != v.unit || got.low != v.low {
			t.Fatalf("settings %v: %v is decoded, %v is what the sensor takes it for", settings, got.levels, want.levels)
		}
		g.visitRows(v, func(block, _, _, from, to int) {
			for i := from; i < to; i++ {
				if off := int(v.levels[i]) - int(got.levels[i]); 2*max(off, -off) > steps[settings[block]] {
					t.Fatalf("level %d comes out as %d, in steps of %d", v.levels[i], got.levels[i], steps[settings[block]])
				}
			}
		})
	}
}

// FuzzDecode: whatever comes, it is decoded or refused.
func FuzzDecode(f *testing.F) {
	v := random(1)
	data, _, err := v.encodeFeatures(grid{2}, []int{0, 1, 2, 6})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:20])
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := decodeVolume(data, grid{2}, v.frames, v.channels, v.height, v.width)
		if err == nil && len(got.levels) != len(v.levels) {
			t.Errorf("%d levels of %d", len(got.levels), len(v.levels))
		}
	})
}

// TestRegions: blocks with a person in the interval before are those that are sent well.
func TestRegions(t *testing.T) {
	d := detector(t)
	r, err := Record(d, Sensors()[0], frames(t, clip, 2, 20, 40), 2)
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(r, 4)
	if err != nil {
		t.Fatal(err)
	}
	lab := pipeline.NewLab(p)
	steps, err := lab.Run(&pipeline.Heuristic{Next: p.Regions(len(steps)-1, 0)})
	if err != nil {
		t.Fatal(err)
	}
	low, err := lab.Run(pipeline.Fixed{Config: oneadapt.Cheapest(p.Knobs())})
	if err != nil {
		t.Fatal(err)
	}
	got, cheap := pipeline.Mean(steps), pipeline.Mean(low)
	if got.Accuracy < cheap.Accuracy+0.1 || got.Cost > 0.9 {
		t.Errorf("regions: %.3f for %.3f of the bytes; the cheapest settings: %.3f for %.3f", got.Accuracy, got.Cost, cheap.Accuracy, cheap.Cost)
	}
	t.Logf("regions: %.3f for %.3f of the bytes; the cheapest settings: %.3f for %.3f", got.Accuracy, got.Cost, cheap.Accuracy, cheap.Cost)
}
