package sounds

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// wave makes a WAV file of a format, of chunks before its data, and of data.
func wave(code, channels, rate, bits int, data []byte) []byte {
	b := binary.LittleEndian.AppendUint16(nil, uint16(code))
	b = binary.LittleEndian.AppendUint16(b, uint16(channels))
	b = binary.LittleEndian.AppendUint32(b, uint32(rate))
	b = binary.LittleEndian.AppendUint32(b, uint32(rate*channels*bits/8))
	b = binary.LittleEndian.AppendUint16(b, uint16(channels*bits/8))
	b = binary.LittleEndian.AppendUint16(b, uint16(bits))
	if code == codeExtensible {
		b = append(b, 22, 0, byte(bits), 0, 3, 0, 0, 0, codePCM, 0)
		b = append(b, "\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71"...)
	}
	return slices.Concat([]byte("RIFF\xff\xff\xff\xffWAVE"), chunk("LIST", []byte("odd")), chunk("fmt ", b), chunk("data", data))
}

func chunk(name string, body []byte) []byte {
	b := append(binary.LittleEndian.AppendUint32([]byte(name), uint32(len(body))), body...)
	return append(b, make([]byte, len(body)%2)...)
}

// TestSamplesOfEachFormat: samples of each width, of integers and floats, are what is in the file, and those of several channels their mean.
func TestSamplesOfEachFormat(t *testing.T) {
	floats := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, math.Float32bits(0.5)), math.Float32bits(float32(math.NaN())))
	doubles := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, math.Float64bits(-0.25)), math.Float64bits(math.Inf(1)))
	for _, c := range []struct {
		code, channels, bits int
		data                 []byte
		want                 []float32
	}{
		{codePCM, 1, 8, []byte{0, 128, 255}, []float32{-1, 0, 127. / 128}},
		{codePCM, 1, 16, []byte{0, 0x80, 0, 0, 0xff, 0x7f}, []float32{-1, 0, 32767. / 32768}},
		{codePCM, 1, 24, []byte{0, 0, 0x80, 0, 0, 0x40, 1, 0, 0}, []float32{-1, 0.5, 1. / (1 << 23)}},
		{codePCM, 1, 32, []byte{0, 0, 0, 0x80, 0, 0, 0, 0x20}, []float32{-1, 0.25}},
		{codeFloat, 1, 32, floats, []float32{0.5, 0}},
		{codeFloat, 1, 64, doubles, []float32{-0.25, 1 << 20}},
		{codePCM, 2, 16, []byte{0, 0x40, 0, 0x20, 0, 0xc0, 0, 0x40, 1}, []float32{0.375, 0}},
		{codeExtensible, 1, 16, []byte{0, 0x40}, []float32{0.5}},
	} {
		w, err := ParseWAV(wave(c.code, c.channels, 16000, c.bits, c.data))
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		got := make([]float32, len(c.want)+1)
		n, err := w.Next(t.Context(), got)
		if err != nil || w.Rate() != 16000 || !slices.Equal(got[:n], c.want) {
			t.Errorf("%+v: %d Hz: %v, %v", c, w.Rate(), got[:n], err)
		}
		if _, err := w.Next(t.Context(), got); err != io.EOF {
			t.Errorf("%+v: behind the end: %v", c, err)
		}
	}
}

// TestLyingHeadsAreRefused: a head whose figures cannot be is refused, and one whose length is too great has the samples that are there.
func TestLyingHeadsAreRefused(t *testing.T) {
	good := wave(codePCM, 1, 8000, 16, []byte{1, 2, 3, 4})
	changed := func(at int, value ...byte) []byte {
		b := slices.Clone(good)
		copy(b[bytes.Index(b, []byte("fmt "))+8+at:], value)
		return b
	}
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"no WAV":          {[]byte("OggS and so on, twelve bytes"), ErrFormat.Error()},
		"no channels":     {changed(2, 0, 0), "invalid number 0 of channels"},
		"many channels":   {changed(2, 0xff, 0xff), "invalid number 65535 of channels"},
		"rate 0":          {changed(4, 0, 0, 0, 0), "invalid rate 0 of sound"},
		"rate 10^9":       {changed(4, 0, 0xca, 0x9a, 0x3b), "invalid rate 1000000000 of sound"},
		"align":           {changed(12, 7), "7 bytes are said to hold 1 channels of 16 bits"},
		"bits":            {changed(14, 12), ErrFormat.Error()},
		"compressed":      {changed(0, 17), ErrFormat.Error()},
		"no samples":      {good[:bytes.Index(good, []byte("data"))], "it has no samples"},
		"data first":      {append(slices.Clone(good[:12]), good[bytes.Index(good, []byte("data")):]...), "before their format"},
		"chunk too large": {append(slices.Clone(good[:12]), "LIST\xff\xff\xff\x7f...."...), `chunk "LIST" of 2147483647 bytes has 4`},
		"short format":    {append(slices.Clone(good[:12]), chunk("fmt ", make([]byte, 4))...), "its format has 4 bytes"},
	} {
		if _, err := ParseWAV(c.file); err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrFormat) != (c.want == ErrFormat.Error()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	open := slices.Clone(good)
	copy(open[bytes.Index(open, []byte("data"))+4:], "\xff\xff\xff\xff")
	if w, err := ParseWAV(open); err != nil || w.Frames() != 2 {
		t.Errorf("a length left open: %v", err)
	}
}

func FuzzParseWAV(f *testing.F) {
	for _, bits := range []int{8, 16, 24, 32} {
		f.Add(wave(codePCM, 2, 8000, bits, make([]byte, 24)))
	}
	f.Add(wave(codeFloat, 1, 8000, 64, make([]byte, 24)))
	f.Add(wave(codeExtensible, 1, 8000, 16, make([]byte, 24)))
	f.Fuzz(func(t *testing.T, file []byte) {
		w, err := ParseWAV(file)
		if err != nil {
			return
		}
		if err := CheckFormat(w.rate, w.channels); err != nil || w.Frames() > len(file) {
			t.Fatalf("%d frames of %v", w.Frames(), err)
		}
		into := make([]float32, w.Frames())
		n, _ := w.Next(t.Context(), into)
		for _, v := range into[:n] {
			if !(math.Abs(float64(v)) <= 1<<20) {
				t.Fatalf("a sample of %v", v)
			}
		}
	})
}

// TestResampledTones: a tone below the cutoff is the same tone at another rate, and one above it is gone.
func TestResampledTones(t *testing.T) {
	for _, rates := range [][2]int{{8000, 16000}, {44100, 16000}, {48000, 16000}, {11025, 16000}, {22050, 8000}, {16000, 8000}, {44101, 16000}, {384000, 8000}, {1000, 16000}, {8000, 3000}, {16000, 16000}} {
		from, to := rates[0], rates[1]
		for _, part := range []float64{0.1, 0.3, 0.7, 1.2, 1.6} { // of half of the lower rate
			frequency := part * float64(min(from, to)) / 2
			if part > 1 && to >= from {
				continue
			}
			tone := func(rate int) []float32 {
				s := make([]float32, rate)
				for i := range s {
					s[i] = float32(math.Sin(2 * math.Pi * frequency * float64(i) / float64(rate)))
				}
				return s
			}
			got, want := Resample(tone(from), from, to), tone(to)
			if len(got) != to {
				t.Fatalf("%v: a second has %d samples", rates, len(got))
			}
			off := 0.0
			for i := to / 10; i < to*9/10; i++ {
				if part > 1 {
					want[i] = 0
				}
				off = max(off, math.Abs(float64(got[i]-want[i])))
			}
			most := 0.004
			if part > 1 {
				most = 0.03
			}
			if from == 44101 {
				most += 0.002 * part // its outputs are off by up to half of a phase
			}
			if off > most {
				t.Errorf("%v, %.0f Hz: off by %.5f", rates, frequency, off)
			}
		}
	}
}

// TestPiecesAreTheWhole: however a sound comes, the same samples come of it.
func TestPiecesAreTheWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		from, to := []int{8000, 44100, 11025, 44101, 16000}[r.IntN(5)], []int{8000, 16000, 3000}[r.IntN(3)]
		sound := make([]float32, r.IntN(5000))
		for i := range sound {
			sound[i] = r.Float32() - 0.5
		}
		want := Resample(sound, from, to)
		rs := NewResampler(from, to)
		if len(want) != rs.Length(len(sound)) {
			t.Fatalf("%d of %d samples, %d to %d Hz", len(want), len(sound), from, to)
		}
		var got []float32
		for rest := sound; len(rest) > 0; {
			n := 1 + r.IntN(len(rest))
			got = rs.Append(got, rest[:n])
			rest = rest[n:]
		}
		if got = rs.End(got); !slices.Equal(got, want) {
			t.Fatalf("%d samples from %d to %d Hz: %d come of pieces, %d of the whole", len(sound), from, to, len(got), len(want))
		}
	}
}

func BenchmarkResample(b *testing.B) {
	sound := make([]float32, 44100)
	for b.Loop() {
		Resample(sound, 44100, 16000)
	}
}
