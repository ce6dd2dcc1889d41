package media

import (
	"bytes"
	"image"
	"image/color"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// TestColours: known colours of both standards, by the samples that the recommendations give them.
func TestColours(t *testing.T) {
	for _, c := range []struct {
		matrix    Matrix
		y, cb, cr byte
		rgb       [3]byte
	}{
		{BT601, 16, 128, 128, [3]byte{0, 0, 0}}, {BT601, 235, 128, 128, [3]byte{255, 255, 255}},
		{BT601, 81, 90, 240, [3]byte{255, 0, 0}}, {BT601, 145, 54, 34, [3]byte{0, 255, 0}}, {BT601, 41, 240, 110, [3]byte{0, 0, 255}},
		{BT709, 63, 102, 240, [3]byte{255, 0, 0}}, {BT709, 173, 42, 26, [3]byte{0, 255, 0}}, {BT709, 32, 240, 118, [3]byte{0, 0, 255}},
	} {
		m := image.NewRGBA(image.Rect(0, 0, 3, 3)) // odd: planes of 2x2 samples of chroma
		for i := range 9 {
			m.SetRGBA(i%3, i/3, color.RGBA{c.rgb[0], c.rgb[1], c.rgb[2], 255})
		}
		f := FromRGBA(m, c.matrix)
		if got := [3]byte{f.Y[8], f.Cb[3], f.Cr[3]}; got != [3]byte{c.y, c.cb, c.cr} {
			t.Errorf("matrix %d: %v became %v, want %d %d %d", c.matrix, c.rgb, got, c.y, c.cb, c.cr)
		}
		back := f.RGBA().RGBAAt(2, 2)
		bgr := make([]byte, 27)
		if err := f.BGR(bgr); err != nil {
			t.Fatal(err)
		}
		if [3]byte{back.R, back.G, back.B} != [3]byte{bgr[26], bgr[25], bgr[24]} {
			t.Errorf("RGBA says %v, BGR %v", back, bgr[24:])
		}
		for i, v := range []byte{back.R, back.G, back.B} {
			if math.Abs(float64(v)-float64(c.rgb[i])) > 2 { // luma has 219 steps
				t.Errorf("matrix %d: %v came back as %v", c.matrix, c.rgb, back)
			}
		}
	}
	if err := NewFrame(4, 4).BGR(make([]byte, 47)); err == nil {
		t.Error("47 bytes were room enough for 16 pixels")
	}
}

func TestFrameCheck(t *testing.T) {
	if err := NewFrame(3, 5).Check(); err != nil {
		t.Error(err)
	}
	short := NewFrame(4, 4)
	short.Cr = short.Cr[:3]
	if err := short.Check(); err == nil || !strings.Contains(err.Error(), "plane Cr") {
		t.Errorf("a short plane: %v", err)
	}
	for _, size := range [][2]int{{0, 1}, {1, -1}, {MaxPixels + 1, 1}, {1 << 40, 1 << 40}} {
		if CheckSize(size[0], size[1]) == nil {
			t.Errorf("%v passed", size)
		}
	}
}

func TestClone(t *testing.T) {
	f := NewFrame(5, 3)
	f.Index, f.Matrix = 7, BT709
	for i := range f.Y {
		f.Y[i] = byte(i)
	}
	wide := &Frame{Width: 3, Height: 3, Y: f.Y, YStride: 5, Cb: f.Cb, Cr: f.Cr, CStride: 3}
	c := wide.Clone()
	if want := []byte{0, 1, 2, 5, 6, 7, 10, 11, 12}; !bytes.Equal(c.Y, want) || c.YStride != 3 {
		t.Errorf("cloned luma %v, want %v", c.Y, want)
	}
	if c = f.Clone(); !reflect.DeepEqual(c, f) {
		t.Errorf("%+v was cloned as %+v", f, c)
	}
}

func TestPSNR(t *testing.T) {
	a, b := NewFrame(32, 16), NewFrame(32, 16)
	for i := range b.Y {
		if i%32 >= 16 {
			b.Y[i] = 10
		}
	}
	left, err1 := PSNR([]*Frame{a}, []*Frame{b}, image.Rect(0, 0, 16, 16))
	right, err2 := PSNR([]*Frame{a}, []*Frame{b}, image.Rect(16, 0, 32, 16))
	all, err3 := PSNR([]*Frame{a, a}, []*Frame{b, a}, image.Rect(0, 0, 32, 16))
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	if want := 10 * math.Log10(255*255/100.); !math.IsInf(left, 1) || math.Abs(right-want) > 1e-9 || math.Abs(all-want-10*math.Log10(4)) > 1e-9 {
		t.Errorf("left %v, right %v, all %v, want +Inf, %v, 6 dB more", left, right, all, want)
	}
	for _, bad := range []image.Rectangle{{}, image.Rect(0, 0, 33, 16), image.Rect(-1, 0, 3, 3)} {
		if _, err := PSNR([]*Frame{a}, []*Frame{b}, bad); err == nil {
			t.Errorf("%v was compared", bad)
		}
	}
}

func TestQPMapSet(t *testing.T) {
	m := NewQPMap(100, 33, 36) // 7 x 3 macroblocks
	m.Set(image.Rect(15, 16, 33, 32), 24)
	m.Set(image.Rect(90, 32, 500, 500), 20)
	m.Set(image.Rect(-50, -50, 1, 1), 10)
	m.Set(image.Rect(64, 0, 64, 100), 1) // empty
	want := []byte{
		10, 36, 36, 36, 36, 36, 36,
		24, 24, 24, 36, 36, 36, 36,
		36, 36, 36, 36, 36, 20, 20,
	}
	if !bytes.Equal(m.QP, want) || m.Check(100, 33) != nil {
		t.Errorf("%d x %d: %v, want %v", m.Columns, m.Rows, m.QP, want)
	}
	if m.Check(100, 49) == nil {
		t.Error("a map of three rows passed for four")
	}
	m.QP[9] = 52
	if err := m.Check(100, 33); err == nil || !strings.Contains(err.Error(), "macroblock 2, 1") {
		t.Errorf("quantiser 52: %v", err)
	}
}

func TestQPMapWire(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		m := NewQPMap(1+r.IntN(700), 1+r.IntN(700), 36)
		for range r.IntN(10) {
			x, y := r.IntN(700), r.IntN(700)
			m.Set(image.Rect(x, y, x+r.IntN(300), y+r.IntN(300)), uint8(r.IntN(52)))
		}
		data, err := m.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseQPMap(data)
		if err != nil || !reflect.DeepEqual(back, m) {
			t.Fatalf("%v came back as %v, %v", m, back, err)
		}
	}
	region := NewQPMap(1280, 720, 36)
	region.Set(image.Rect(300, 200, 500, 400), 24)
	data, err := region.AppendBinary(nil)
	if err != nil || len(data) > 100 {
		t.Errorf("a map of 3600 macroblocks with one region takes %d bytes, %v", len(data), err)
	}
}

func FuzzParseQPMap(f *testing.F) {
	m := NewQPMap(640, 360, 30)
	m.Set(image.Rect(3, 3, 200, 100), 20)
	data, err := m.AppendBinary(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:len(data)-3])
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseQPMap(data)
		if err != nil {
			return
		}
		again, err := m.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := ParseQPMap(again); err != nil || !reflect.DeepEqual(back, m) {
			t.Fatalf("%v came back as %v, %v", m, back, err)
		}
	})
}

func someSegment() *Segment {
	return &Segment{Width: 64, Height: 48, Rate: 29.97, Units: []Unit{
		{Data: []byte{0, 0, 0, 1, 0x67, 1, 2, 0, 0, 1, 0x65, 9}, Order: 0, Index: 30, Time: 1e9},
		{Data: []byte{0, 0, 1, 0x41, 3}, Order: 2, Index: 34, Time: 3e9},
		{Data: []byte{0, 0, 1, 0x01, 4, 5}, Order: 1, Index: 32, Time: 2e9},
	}}
}

func TestSegmentWire(t *testing.T) {
	s := someSegment()
	if s.NALBytes() != 23 {
		t.Errorf("%d bytes, want 23", s.NALBytes())
	}
	data, err := s.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	back, err := ParseSegment(data)
	if err != nil || !reflect.DeepEqual(back, s) {
		t.Errorf("%v came back as %v, %v", s, back, err)
	}
	inner := data[1 : len(data)-4]
	for n := range data {
		if _, err := ParseSegment(data[:n]); err == nil {
			t.Errorf("%d of %d bytes were a segment", n, len(data))
		}
		if _, err := parseSegment(inner[:min(n, len(inner)-1)]); err == nil {
			t.Errorf("%d of %d bytes within were a segment", n, len(inner))
		}
		spoilt := bytes.Clone(data)
		spoilt[n] ^= 1 << (n % 8)
		if _, err := ParseSegment(spoilt); err == nil {
			t.Errorf("with a bit of byte %d flipped it was a segment", n)
		}
	}
	if _, err := ParseSegment(append(data, 0)); err == nil {
		t.Error("a byte more was no error")
	}
}

func TestNALUnits(t *testing.T) {
	unit := []byte{0, 0, 0, 1, 0x67, 1, 2, 0, 0, 0, 1, 0x68, 3, 0, 0, 1, 0x65, 0, 3, 0, 0, 1}
	want := []NAL{{7, unit[:7]}, {8, unit[7:13]}, {5, unit[13:19]}}
	if got := NALUnits(unit); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, none := range [][]byte{nil, {0}, {0, 1, 5}, {0, 0, 1}, {0, 0}, {1, 0, 0, 1, 5}} {
		if got := NALUnits(none); got != nil {
			t.Errorf("%v has %v", none, got)
		}
	}
}

func TestSegmentCheck(t *testing.T) {
	for name, spoil := range map[string]func(*Segment){
		"no IDR":          func(s *Segment) { s.Units[0].Data[10] = 0x41 },
		"before":          func(s *Segment) { s.Units[2].Order = 2 },
		"outside":         func(s *Segment) { s.Units[2].Order = 3 },
		"no slice":        func(s *Segment) { s.Units[1].Data = []byte{0, 0, 1, 0x06, 1} },
		"behind a start":  func(s *Segment) { s.Units[1].Data = []byte{7, 0, 0, 1, 0x41} },
		"0 frames":        func(s *Segment) { s.Units = nil },
		"frames in a sec": func(s *Segment) { s.Rate = math.NaN() },
		"0 x 48":          func(s *Segment) { s.Width = 0 },
	} {
		s := someSegment()
		spoil(s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParseSegment(f *testing.F) {
	data, err := someSegment().AppendBinary(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data[1 : len(data)-4]) // without the checksum, which no fuzzer finds
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseSegment(data)
		if err != nil {
			return
		}
		again, err := s.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := ParseSegment(again); err != nil || !reflect.DeepEqual(back, s) {
			t.Fatalf("%v came back as %v, %v", s, back, err)
		}
	})
}

func TestSettingsCheck(t *testing.T) {
	good := func() *Settings { return &Settings{Rate: 10, Quality: QP(30)} }
	for name, change := range map[string]func(*Settings){
		"":                   func(s *Settings) { s.Width, s.Height, s.Quality, s.BFrames = 32, 16, CRF(23.5), 2 },
		"both must be even":  func(s *Settings) { s.Width = 31 },
		"-2 x 48":            func(s *Settings) { s.Width = -2 },
		"rate of 0":          func(s *Settings) { s.Rate = 0 },
		"no quality":         func(s *Settings) { s.Quality = nil },
		"quantiser 52":       func(s *Settings) { s.Quality = QP(52) },
		"rate factor NaN":    func(s *Settings) { s.Quality = CRF(math.NaN()) },
		"2 QP maps":          func(s *Settings) { s.Quality = Maps{NewQPMap(64, 48, 1), NewQPMap(64, 48, 1)} },
		"have 4 x 4":         func(s *Settings) { s.Height, s.Quality = 64, Maps{NewQPMap(64, 48, 1)} },
		"ratios":             func(s *Settings) { s.IPRatio, s.Quality = 1.4, Maps{NewQPMap(64, 48, 1)} },
		"ratios of quantise": func(s *Settings) { s.PBRatio = math.Inf(1) },
		"17 B frames":        func(s *Settings) { s.BFrames = 17 },
		`preset "swift"`:     func(s *Settings) { s.Preset = "swift" },
		"chroma":             func(s *Settings) { s.ChromaOffset = 13 },
	} {
		s := good()
		change(s)
		if err := s.Check(3, 64, 48); (err == nil) != (name == "") || err != nil && !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := good().Check(0, 64, 48); err == nil {
		t.Error("no frames passed")
	}
}
