package images

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
)

// random is an image of a kind, of noise.
func random(r *rand.Rand, kind, h, w int) image.Image {
	box := image.Rect(0, 0, w, h)
	noise := func(b []byte) {
		for i := range b {
			b[i] = byte(r.Uint32())
		}
	}
	switch kind {
	case 0:
		m := image.NewYCbCr(box, image.YCbCrSubsampleRatio(r.IntN(6)))
		noise(m.Y)
		noise(m.Cb)
		noise(m.Cr)
		return m
	case 1:
		m := image.NewNRGBA(box)
		noise(m.Pix)
		return m
	case 2:
		m := image.NewRGBA(box)
		noise(m.Pix)
		for i := 3; i < len(m.Pix); i += 4 {
			m.Pix[i] = 255
		}
		return m
	case 3:
		m := image.NewGray(box)
		noise(m.Pix)
		return m
	case 4:
		m := image.NewNRGBA64(box)
		noise(m.Pix)
		return m
	case 5:
		m := image.NewPaletted(box, color.Palette{color.NRGBA{1, 2, 3, 255}, color.NRGBA{200, 100, 50, 255}})
		noise(m.Pix)
		for i := range m.Pix {
			m.Pix[i] &= 1
		}
		return m
	}
	m := image.NewCMYK(box)
	noise(m.Pix)
	return m
}

const kinds = 7

// dumb is the value of a channel of the network, at a place of the input, by the definition.
func dumb(to *Target, m image.Image, height, width, y, x, channel int) float64 {
	b := m.Bounds()
	h, w := height, width
	if to.Letterbox {
		ratio := min(float64(width)/float64(b.Dx()), float64(height)/float64(b.Dy()))
		h, w = max(1, int(ratio*float64(b.Dy())+1e-9)), max(1, int(ratio*float64(b.Dx())+1e-9))
	}
	color3 := channel
	if to.BGR {
		color3 = 2 - channel
	}
	v := to.Grey
	if y < h && x < w {
		pixel := func(y, x int) float64 {
			y, x = min(max(y, 0), b.Dy()-1), min(max(x, 0), b.Dx()-1)
			c := color.NRGBAModel.Convert(m.At(b.Min.X+x, b.Min.Y+y)).(color.NRGBA)
			return float64([]uint8{c.R, c.G, c.B}[color3])
		}
		sy, sx := (float64(y)+0.5)*float64(b.Dy())/float64(h)-0.5, (float64(x)+0.5)*float64(b.Dx())/float64(w)-0.5
		fy, fx := math.Floor(sy), math.Floor(sx)
		dy, dx := sy-fy, sx-fx
		y, x := int(fy), int(fx)
		v = (1-dy)*((1-dx)*pixel(y, x)+dx*pixel(y, x+1)) + dy*((1-dx)*pixel(y+1, x)+dx*pixel(y+1, x+1))
	}
	at := func(list []float64, otherwise float64) float64 {
		if len(list) == 0 {
			return otherwise
		}
		return list[channel%len(list)]
	}
	return (v - at(to.Mean, 0)) / at(to.Scale, 1)
}

// TestAgainstDefinition holds pictures of all kinds, sizes and options to the definition.
func TestAgainstDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	types := []engine.DType{engine.FP32, engine.Uint8, engine.FP16}
	for n := range 600 {
		m := random(r, n%kinds, 1+r.IntN(20), 1+r.IntN(20))
		o := Options{BGR: r.IntN(2) == 1, Letterbox: r.IntN(2) == 1, Grey: float64(r.IntN(256)), Layout: []string{"", "NCHW", "NHWC"}[r.IntN(3)]}
		if r.IntN(2) == 1 {
			o.Mean, o.Scale = []float64{10, 20, 30}, []float64{1 + r.Float64()}
		}
		height, width := 1+r.IntN(12), 1+r.IntN(12)
		shape := []int{-1, 3, height, width}
		if o.Layout == "NHWC" || o.Layout == "" && r.IntN(2) == 1 && height != 3 {
			shape = []int{-1, height, width, 3}
		}
		if r.IntN(4) == 0 { // left open
			shape[0] = 1
			for i := 1; i < 4; i++ {
				if shape[i] != 3 {
					shape[i] = -1
				}
			}
		}
		to, err := NewTarget(types[n%3], shape, o)
		if err != nil {
			t.Fatal(err)
		}
		p := FromImage(m)
		out := make([]byte, to.Bytes(p.Height, p.Width))
		to.Write(out, p)
		whole := to.Shape(1, p.Height, p.Width)
		height, width = whole[1], whole[2]
		if to.ChannelsFirst {
			height, width = whole[2], whole[3]
		}
		for y := range height {
			for x := range width {
				for c := range 3 {
					at := (y*width+x)*3 + c
					if to.ChannelsFirst {
						at = (c*height+y)*width + x
					}
					got, tolerance := valueAt(to.Type, out, at), 2e-3
					want := dumb(to, m, height, width, y, x, c)
					switch to.Type {
					case engine.Uint8:
						want, tolerance = min(max(want, 0), 255), 0.502
					case engine.FP16:
						tolerance = 0.13
					}
					if math.Abs(got-want) > tolerance {
						t.Fatalf("case %d: %T of %v as %v %v, %+v: at %d, %d channel %d is %v, want %v", n, m, m.Bounds().Max, to.Type, whole, o, y, x, c, got, want)
					}
				}
			}
		}
	}
}

func valueAt(t engine.DType, out []byte, at int) float64 {
	switch t {
	case engine.Uint8:
		return float64(out[at])
	case engine.FP32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(out[4*at:])))
	}
	return fromHalf(binary.LittleEndian.Uint16(out[2*at:]))
}

func fromHalf(bits uint16) float64 {
	sign, exponent, fraction := 1-2*float64(bits>>15), int(bits>>10&31), float64(bits&1023)
	switch exponent {
	case 0:
		return sign * fraction * math.Pow(2, -24)
	case 31:
		if fraction != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * (1 + fraction/1024) * math.Pow(2, float64(exponent-15))
}

// TestHalf holds that every FP16 is itself, and that what lies between two of them goes to the nearer, or the even.
func TestHalf(t *testing.T) {
	for bits := range uint16(0x7c00) {
		low, high := fromHalf(bits), fromHalf(bits+1)
		if got := toHalf(float32(low)); got != bits {
			t.Fatalf("%v is %#x, want %#x", low, got, bits)
		}
		if got := toHalf(-float32(low)); got != bits|0x8000 {
			t.Fatalf("%v is %#x, want %#x", -low, got, bits|0x8000)
		}
		if math.IsInf(high, 0) {
			high = 65536
		}
		middle := float32((low + high) / 2)
		if got, want := toHalf(middle), bits+bits&1; got != want {
			t.Fatalf("%v is %#x, want %#x", middle, got, want)
		}
		if got := toHalf(math.Nextafter32(middle, 1e9)); got != bits+1 {
			t.Fatalf("above %v is %#x, want %#x", middle, got, bits+1)
		}
	}
	if !math.IsNaN(fromHalf(toHalf(float32(math.NaN())))) || !math.IsInf(fromHalf(toHalf(1e9)), 1) {
		t.Error("NaN or infinity is lost")
	}
}

// TestDecode holds that the formats are known, and that the picture is the decoder's.
func TestDecode(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for kind := range kinds {
		m := random(r, kind, 9, 17)
		var file bytes.Buffer
		if err := png.Encode(&file, m); err != nil {
			t.Fatal(err)
		}
		same(t, file.Bytes(), 9, 17)
		file.Reset()
		if err := jpeg.Encode(&file, m, nil); err != nil {
			t.Fatal(err)
		}
		same(t, file.Bytes(), 9, 17)
	}
}

func same(t *testing.T, file []byte, h, w int) {
	t.Helper()
	want, _, err := image.Decode(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	p, err := Decode(file)
	if err != nil || p.Height != h || p.Width != w {
		t.Fatalf("%+v, %v", p, err)
	}
	got, columns := make([]byte, 3*w), make([]int, w)
	for x := range columns {
		columns[x] = x
	}
	for y := range h {
		p.row(y, columns, got)
		for x := range w {
			c := color.NRGBAModel.Convert(want.At(x, y)).(color.NRGBA)
			if got[3*x] != c.R || got[3*x+1] != c.G || got[3*x+2] != c.B {
				t.Fatalf("%T at %d, %d: %v, want %v", want, y, x, got[3*x:3*x+3], c)
			}
		}
	}
}

// pngOf is the beginning of a PNG that claims a size.
func pngOf(width, height uint32) []byte {
	chunk := binary.BigEndian.AppendUint32([]byte("IHDR"), width)
	chunk = binary.BigEndian.AppendUint32(chunk, height)
	chunk = append(chunk, 8, 2, 0, 0, 0)
	file := append(bytes.Clone(magicPNG), 0, 0, 0, 13)
	return binary.BigEndian.AppendUint32(append(file, chunk...), crc32.ChecksumIEEE(chunk))
}

// TestRefused holds that what cannot or must not be decoded is refused with the figure, and costs nothing.
func TestRefused(t *testing.T) {
	var file bytes.Buffer
	if err := jpeg.Encode(&file, image.NewGray(image.Rect(0, 0, 30, 30)), nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		data []byte
		want string
	}{
		{nil, "neither JPEG nor PNG"},
		{[]byte("GIF89a"), "neither JPEG nor PNG"},
		{pngOf(100_000, 100_000), "100000 x 100000 pixels, which is more than 33177600"},
		{pngOf(7681, 4320), "7681 x 4320"},
		{pngOf(1<<31-1, 1<<31-1), "dimension overflow"},
		{pngOf(0, 5), "cannot be decoded"},
		{pngOf(5, 5), "unexpected EOF"},
		{magicPNG, "cannot be decoded"},
		{magicJPEG, "cannot be decoded"},
		{file.Bytes()[:file.Len()/2], "cannot be decoded"},
	} {
		allocated := testing.AllocsPerRun(1, func() {
			if p, err := Decode(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%.20q: %v, %v", c.data, p, err)
			}
		})
		if allocated > 1000 {
			t.Errorf("%.20q: %v allocations", c.data, allocated)
		}
	}
	if _, _, err := Size([]byte("x")); !errors.Is(err, ErrFormat) {
		t.Errorf("got %v", err)
	}
}

func TestNoTarget(t *testing.T) {
	for _, c := range []struct {
		kind  engine.DType
		shape []int
		o     Options
		want  string
	}{
		{engine.Int64, []int{1, 3, 4, 4}, Options{}, "INT64"},
		{engine.FP32, []int{1, 3, 4}, Options{}, "[1 3 4]"},
		{engine.FP32, []int{1, 1, 4, 4}, Options{}, "3 channels"},
		{engine.FP32, []int{1, 3, 4, 4}, Options{Layout: "NHWC"}, "3 channels"},
		{engine.FP32, []int{1, 3, 4, 4}, Options{Height: 5, Width: 4}, "5 x 4"},
		{engine.FP32, []int{1, 3, 4, 4}, Options{Mean: []float64{1, 2}}, "mean: 2 values"},
		{engine.FP32, []int{1, 3, 4, 4}, Options{Scale: []float64{1, 2, 3, 4}}, "scale: 4 values"},
	} {
		if to, err := NewTarget(c.kind, c.shape, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %+v, %v", c, to, err)
		}
	}
	to, err := NewTarget(engine.FP32, []int{-1, 3, -1, -1}, Options{Height: 32, Width: 64})
	if err != nil || fmt.Sprint(to.Shape(2, 9, 9)) != "[2 3 32 64]" || to.Bytes(9, 9) != 3*32*64*4 {
		t.Errorf("%+v, %v", to, err)
	}
}

// FuzzDecode holds that no bytes do harm, and that every row of what is decoded can be read.
func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(7, 8))
	for kind := range kinds {
		var file bytes.Buffer
		if err := png.Encode(&file, random(r, kind, 5, 6)); err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.Clone(file.Bytes()))
		file.Reset()
		if err := jpeg.Encode(&file, random(r, kind, 5, 6), nil); err != nil {
			f.Fatal(err)
		}
		f.Add(file.Bytes())
	}
	to, err := NewTarget(engine.FP32, []int{1, 3, 7, 9}, Options{Letterbox: true})
	if err != nil {
		f.Fatal(err)
	}
	out := make([]byte, to.Bytes(1, 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		if h, w, err := Size(data); err == nil && Memory(h, w) > 16<<20 {
			return // would only be slow
		}
		if p, err := Decode(data); err == nil {
			to.Write(out, p)
		}
	})
}

// BenchmarkJPEG decodes a frame of 1080p and letterboxes it to 416 x 416; each part by itself too.
func BenchmarkJPEG(b *testing.B) {
	m := image.NewYCbCr(image.Rect(0, 0, 1920, 1080), image.YCbCrSubsampleRatio420)
	for y := range 1080 {
		for x := range 1920 {
			m.Y[m.YOffset(x, y)] = byte(128 + 60*math.Sin(float64(x)/9) + 60*math.Cos(float64(y)/7*float64(x)/500))
			m.Cb[m.COffset(x, y)], m.Cr[m.COffset(x, y)] = byte(x/8), byte(y/5)
		}
	}
	var file bytes.Buffer
	if err := jpeg.Encode(&file, m, &jpeg.Options{Quality: 85}); err != nil {
		b.Fatal(err)
	}
	to, err := NewTarget(engine.FP32, []int{1, 3, 416, 416}, Options{Letterbox: true, Grey: 114, BGR: true})
	if err != nil {
		b.Fatal(err)
	}
	out := make([]byte, to.Bytes(1, 1))
	b.Run(fmt.Sprintf("decode of %d kB", file.Len()/1000), func(b *testing.B) {
		for range b.N {
			if _, err := Decode(file.Bytes()); err != nil {
				b.Fatal(err)
			}
		}
	})
	p := FromImage(m)
	b.Run("letterbox", func(b *testing.B) {
		for range b.N {
			to.Write(out, p)
		}
	})
	raw := FromRGB(make([]byte, 3*1920*1080), 1080, 1920)
	b.Run("letterbox of bytes", func(b *testing.B) {
		for range b.N {
			to.Write(out, raw)
		}
	})
}
