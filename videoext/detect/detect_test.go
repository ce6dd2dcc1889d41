//go:build cgo

package detect

import (
	"cmp"
	"image"
	"image/color"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/vision"
)

// model is a network of the shared data.
func model(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("PREFILLONLY_DATA")
	if dir == "" {
		dir = "../../../shared/data"
	}
	file := filepath.Join(dir, "models", name)
	if _, err := os.Stat(file); err != nil {
		t.Skipf("no networks to run: %v", err)
	}
	return file
}

func open(t *testing.T, name, decoder string, change func(*Options)) (*Detector, error) {
	t.Helper()
	file := model(t, name)
	backend, err := cpu.New(cpu.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(backend.Close)
	d, err := vision.Find(decoder)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Image: Usual(decoder), Decoder: d}
	if change != nil {
		change(&o)
	}
	detector, err := Open(file, backend, o)
	if err == nil {
		t.Cleanup(detector.Close)
	}
	return detector, err
}

// painted is a street: sky, grass, and a road with marks that runs to the horizon.
func painted(w, h int) image.Image {
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	random := rand.New(rand.NewPCG(1, 2))
	for y := range h {
		depth := 2*float64(y)/float64(h) - 1 // from the horizon down
		for x := range w {
			across := (float64(x)/float64(w) - 0.5) / max(depth, 0.01) // of the road's width
			c := color.RGBA{150, 180, 220, 255}
			switch side := max(across, -across); {
			case depth <= 0:
			case side < 0.01 || side > 0.43 && side < 0.45:
				c = color.RGBA{235, 235, 235, 255}
			case side < 0.5:
				c = color.RGBA{95, 95, 100, 255}
			default:
				c = color.RGBA{90, 120, 60, 255}
			}
			noise := uint8(random.IntN(12))
			m.SetRGBA(x, y, color.RGBA{c.R + noise, c.G + noise, c.B + noise, 255})
		}
	}
	return m
}

// TestMaskCoversThePicture: the road is in the lower half of a picture, whatever the picture's size.
func TestMaskCoversThePicture(t *testing.T) {
	d, err := open(t, "road_segmentation_adas_0001.onnx", "segmentation", func(o *Options) { o.Image = images.Options{BGR: true} })
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range [][2]int{{896, 512}, {640, 480}, {200, 300}} {
		r, err := d.Detect(images.FromImage(painted(size[0], size[1])))
		if err != nil {
			t.Fatal(err)
		}
		m := r.Mask
		count := func(from, to int) (road int) {
			for _, c := range m.Class[from*m.Width : to*m.Width] {
				if m.Labels[c] == "road" {
					road++
				}
			}
			return road
		}
		if upper, lower := count(0, m.Height/2), count(m.Height/2, m.Height); upper > len(m.Class)/20 || lower < len(m.Class)/8 {
			t.Errorf("%v: road is %d of the upper half's pixels and %d of the lower half's, of %d in all", size, upper, lower, len(m.Class))
		}
	}
}

// TestBoxesAreInThePicture: what is found in a letterboxed input is told in the picture's own pixels.
func TestBoxesAreInThePicture(t *testing.T) {
	d, err := open(t, "yolox_nano_416.onnx", "yolox", func(o *Options) { o.Vision.Score = 1e-4 })
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, size := range [][2]int{{960, 540}, {100, 700}} {
		r, err := d.Detect(images.FromImage(painted(size[0], size[1])))
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range r.Detections {
			if b := x.Box; b.X0 < 0 || b.Y0 < 0 || b.X1 > float32(size[0]) || b.Y1 > float32(size[1]) {
				t.Errorf("%v: a box at %v", size, b)
			}
			found++
		}
	}
	if found == 0 {
		t.Error("nothing is found, at however low a score")
	}
}

func TestOpenErrors(t *testing.T) {
	for _, c := range []struct{ model, decoder, want string }{
		{"silero_vad_16k_op15.onnx", "yolox", "3 inputs"},
		{"../MANIFEST.md", "yolox", "MANIFEST.md"},
	} {
		if _, err := open(t, c.model, c.decoder, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.model, err, c.want)
		}
	}
}

// TestWrongDecoderIsRefused when the network is opened, with the one that reads it.
func TestWrongDecoderIsRefused(t *testing.T) {
	for name, right := range map[string]string{"yolox_nano_416.onnx": "yolox", "fastestdet_352.onnx": "fastestdet", "face_rfb_320.onnx": "ssd", "yunet_n_640.onnx": "yunet", "deeplab_v3_mnv2_257.onnx": "segmentation"} {
		for _, decoder := range vision.Names() {
			if right == "fastestdet" && decoder == "segmentation" {
				continue // its map could be one of classes
			}
			_, err := open(t, name, decoder, nil)
			if (err == nil) != (decoder == right) || err != nil && !strings.Contains(err.Error(), "outputs like these are read by "+right) {
				t.Errorf("%s, decoder %s: %v", name, decoder, err)
			}
		}
	}
}

func sum(values []float64) (all float64) {
	for _, v := range values {
		all += v
	}
	return all
}

// TestGradient: the map of a gradient says where the network looks. Noise on the blocks of the greatest values changes the utility most.
func TestGradient(t *testing.T) {
	d, err := open(t, "yolox_nano_416.onnx", "yolox", func(o *Options) { o.Vision.Score = 0.01 })
	if err != nil {
		t.Fatal(err)
	}
	const width, height, parts = 640, 480, 10
	rgb := make([]byte, 3*width*height)
	m := painted(width, height)
	for i := range width * height {
		r, g, b, _ := m.At(i%width, i/width).RGBA()
		rgb[3*i], rgb[3*i+1], rgb[3*i+2] = byte(r>>8), byte(g>>8), byte(b>>8)
	}
	u := oneadapt.Utility{Threshold: 0.05, Slope: 20}
	of := func(rgb []byte) *oneadapt.Map {
		m, err := d.Gradient(images.FromRGB(rgb, height, width), u)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	at := of(rgb)
	if at.Width != 40 || at.Height != 30 || at.Utility == 0 {
		t.Fatalf("a map of %d x %d, of %v elements", at.Width, at.Height, at.Utility)
	}
	order := make([]int, len(at.Values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(at.Values[b], at.Values[a]) })
	changes := make([]float64, parts)
	for seed := range uint64(4) {
		for part := range changes {
			noisy, random := slices.Clone(rgb), rand.New(rand.NewPCG(seed, 1))
			for _, block := range order[part*len(order)/parts : (part+1)*len(order)/parts] {
				for i := range 16 * 16 * 3 {
					v := &noisy[3*((block/40*16+i/48)*width+block%40*16)+i%48]
					*v = byte(min(max(int(*v)+random.IntN(17)-8, 0), 255))
				}
			}
			changes[part] += math.Abs(float64(of(noisy).Utility - at.Utility))
		}
	}
	if top, rest := sum(changes[:parts/2]), sum(changes[parts/2:]); top < 4*rest {
		t.Errorf("noise on the half of the greatest gradients changes the utility of %v by %v, on the other half by %v", at.Utility, top, rest)
	}
	t.Logf("utility %.3f, changes by tenths %.4f", at.Utility, changes)
}
