//go:build cgo

package resolve

import (
	"context"
	"image"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/videoext/media"
	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
)

func open(t *testing.T, file string) *Resolver {
	t.Helper()
	backend, err := cpu.New(cpu.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(backend.Close)
	r, err := Open(file, backend)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// doubler writes a network that doubles pictures: three convolutions with holes, of which the last makes 2 x 2 pixels, so that a pixel depends on
// 21 on each side, as in CARN-M.
func doubler(t *testing.T, dims ...any) string {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	weights := func(name string, shape ...int) onnxtest.Tensor {
		n := 1
		for _, d := range shape {
			n *= d
		}
		values := make([]float64, n)
		for i := range values {
			values[i] = random.NormFloat64() / 4
		}
		return onnxtest.Floats(name, shape, values...)
	}
	conv := func(in, out, weights string) onnxtest.Node {
		return onnxtest.Node{Name: out, Op: "Conv", In: []string{in, weights}, Out: []string{out}, Attrs: map[string]any{"pads": []int{7, 7, 7, 7}, "dilations": []int{7, 7}}}
	}
	file := filepath.Join(t.TempDir(), "doubler.onnx")
	data := onnxtest.File(13, onnxtest.Graph{
		Inputs:  []onnxtest.Value{{Name: "x", Type: onnxtest.Float32, Dims: dims}},
		Outputs: []onnxtest.Value{{Name: "y", Type: onnxtest.Float32, Dims: []any{1, 3, "h2", "w2"}}},
		Nodes: []onnxtest.Node{
			conv("x", "a", "wa"), conv("a", "b", "wb"), conv("b", "c", "wc"),
			{Name: "d", Op: "DepthToSpace", In: []string{"c"}, Out: []string{"d"}, Attrs: map[string]any{"blocksize": 2, "mode": "CRD"}},
			{Name: "y", Op: "Sigmoid", In: []string{"d"}, Out: []string{"y"}},
		},
		Constants: []onnxtest.Tensor{weights("wa", 4, 3, 3, 3), weights("wb", 4, 4, 3, 3), weights("wc", 12, 4, 3, 3)},
	})
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func noise(width, height int) *media.Frame {
	random := rand.New(rand.NewPCG(3, 4))
	f := media.NewFrame(width, height)
	for _, plane := range [][]byte{f.Y, f.Cb, f.Cr} {
		for i := range plane {
			plane[i] = byte(60 + random.IntN(120))
		}
	}
	f.Index, f.Time, f.Matrix = 7, 3e9, media.BT709
	return f
}

// TestSeams: tiles make the frame that the network makes of the whole, up to rounding.
func TestSeams(t *testing.T) {
	r := open(t, doubler(t, 1, 3, "h", "w"))
	for _, size := range []image.Point{{150, 97}, {61, 190}, {200, 30}, {7, 5}} {
		f := noise(size.X, size.Y)
		r.pixels = mostPixels
		whole, err := r.Resolve(f, 2)
		if err != nil {
			t.Fatal(err)
		}
		r.pixels = 70 * 70
		parts, err := r.Resolve(f, 2)
		if err != nil {
			t.Fatal(err)
		}
		if whole.Width != 2*size.X || whole.Height != 2*size.Y || whole.Index != 7 || whole.Time != 3e9 || whole.Matrix != media.BT709 {
			t.Errorf("%v becomes a frame of %d x %d, %d at %v", size, whole.Width, whole.Height, whole.Index, whole.Time)
		}
		for i, plane := range [][]byte{whole.Y, whole.Cb, whole.Cr} {
			other := [][]byte{parts.Y, parts.Cb, parts.Cr}[i]
			for at := range plane {
				if d := int(plane[at]) - int(other[at]); d < -1 || d > 1 {
					t.Fatalf("%v: plane %d differs at %d: %d in the whole, %d in tiles", size, i, at, plane[at], other[at])
				}
			}
		}
	}
}

// TestTiles: each pixel is used once, and seen with its margin or up to the picture's edge.
func TestTiles(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		w, h, most := 1+random.IntN(2000), 1+random.IntN(1200), leastPixels+random.IntN(mostPixels)
		whole := image.Rect(0, 0, w, h)
		all := splitTiles(w, h, most)
		area := 0
		for i, tile := range all {
			area += tile.used.Dx() * tile.used.Dy()
			if !tile.used.Inset(-margin).Intersect(whole).In(tile.seen) || !tile.seen.In(whole) || tile.seen.Size() != all[0].seen.Size() {
				t.Fatalf("%d x %d: tile %d is %+v", w, h, i, tile)
			}
			if tile.seen.Dx()*tile.seen.Dy() > most {
				t.Fatalf("%d x %d: a tile of %v, want %d pixels at most", w, h, tile.seen, most)
			}
			for _, other := range all[:i] {
				if tile.used.Overlaps(other.used) {
					t.Fatalf("%d x %d: %v and %v overlap", w, h, tile.used, other.used)
				}
			}
		}
		if area != w*h {
			t.Fatalf("%d x %d: tiles have %d pixels", w, h, area)
		}
	}
}

func TestRefused(t *testing.T) {
	backend, err := cpu.New(cpu.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	for want, file := range map[string]string{"[1 3 -1 -1]": doubler(t, 1, 3, 32, 32), "no.onnx": filepath.Join(t.TempDir(), "no.onnx")} {
		if _, err := Open(file, backend); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	r := open(t, doubler(t, 1, 3, "h", "w"))
	if _, err := r.Resolve(noise(20, 10), 3); err == nil || !strings.Contains(err.Error(), "by 3 is to make [1 3 30 60]") {
		t.Errorf("a network for 2 enlarges by 3: %v", err)
	}
	if _, err := r.Resolve(noise(1<<14, 1), 1<<14); err == nil {
		t.Error("a frame of any size is made")
	}
}

// TestBetterThanBicubic: frames of real clips that were made smaller come nearer to what they were than by a bicubic filter.
func TestBetterThanBicubic(t *testing.T) {
	data := os.Getenv("PREFILLONLY_DATA")
	if data == "" {
		data = "../../../shared/data"
	}
	network := os.Getenv("PREFILLONLY_CARN")
	if network == "" {
		network = "../../build/models/carn_m_x2.onnx"
	}
	if _, err := os.Stat(network); err != nil {
		t.Skipf("no network to enlarge with (tools/train/carn_onnx.py makes one): %v", err)
	}
	r := open(t, network)
	var scaler ffmpeg.Scaler
	defer scaler.Close()
	for _, name := range []string{"dashcam_highway_960x540.mp4", "dashcam_highway_1280x720.mp4", "traffic_topdown_768x432.mp4", "indoor_persons_768x432.mp4"} {
		source, err := ffmpeg.Open(context.Background(), filepath.Join(data, "video", name), ffmpeg.Options{})
		if err != nil {
			t.Skip("no clips to enlarge: ", err)
		}
		f, err := source.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if err := source.Close(); err != nil {
			t.Fatal(err)
		}
		f = centre(f, 320, 192)
		small, err := scaler.Scale(f, f.Width/2, f.Height/2)
		if err != nil {
			t.Fatal(err)
		}
		bicubic, err := scaler.Scale(small, f.Width, f.Height)
		if err != nil {
			t.Fatal(err)
		}
		large, err := r.Resolve(small, 2)
		if err != nil {
			t.Fatal(err)
		}
		inside := image.Rect(0, 0, f.Width, f.Height).Inset(8)
		psnr := func(g *media.Frame) float64 {
			v, err := media.PSNR([]*media.Frame{f}, []*media.Frame{g}, inside)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		before, after := psnr(bicubic), psnr(large)
		t.Logf("%s: bicubic %.2f dB, network %.2f dB", name, before, after)
		if after < before+leastGain {
			t.Errorf("%s: bicubic %.2f dB, network %.2f dB", name, before, after)
		}
	}
}

// centre is the middle of a frame.
func centre(f *media.Frame, width, height int) *media.Frame {
	x, y := (f.Width-width)/4*2, (f.Height-height)/4*2
	part := *f
	part.Width, part.Height = width, height
	part.Y, part.Cb, part.Cr = f.Y[y*f.YStride+x:], f.Cb[y/2*f.CStride+x/2:], f.Cr[y/2*f.CStride+x/2:]
	return part.Clone()
}

// leastGain is what is asked of the network, in dB of luma.
const leastGain = 0.5
