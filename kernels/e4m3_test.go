package kernels

import (
	"math"
	"testing"
)

// value is a code's worth by the format's definition.
func value(code int) float64 {
	exponent, fraction := code>>3&15, float64(code&7)/8
	v := math.Ldexp(1+fraction, exponent-7)
	switch {
	case code&0x7f == 0x7f:
		v = math.NaN()
	case exponent == 0:
		v = math.Ldexp(fraction, -6)
	}
	return math.Copysign(v, 1-2*float64(code>>7))
}

// TestE4M3Codes: every code has its value, and every value its code.
func TestE4M3Codes(t *testing.T) {
	for code := range 256 {
		got, want := E4M3(code).Float32(), value(code)
		if float64(got) != want && !(math.IsNaN(float64(got)) && math.IsNaN(want)) {
			t.Errorf("code %#x is %v, want %v", code, got, want)
		}
		if back := ToE4M3(got); back != E4M3(code) && !math.IsNaN(want) {
			t.Errorf("%v has code %#x, want %#x", got, back, code)
		}
	}
}

// TestE4M3Rounding compares with the nearest of all values, the even code on a tie.
func TestE4M3Rounding(t *testing.T) {
	nearest := func(v float64) int {
		best := 0
		for code := range 0x7f {
			d, least := math.Abs(value(code)-v), math.Abs(value(best)-v)
			if d < least || d == least && code&1 == 0 {
				best = code
			}
		}
		return best
	}
	check := func(v float64) {
		if got, want := ToE4M3(float32(v)), E4M3(nearest(v)); got != want {
			t.Fatalf("%v has code %#x, want %#x", v, got, want)
		}
		if got, want := ToE4M3(float32(-v)), E4M3(nearest(v)|0x80); got != want {
			t.Fatalf("%v has code %#x, want %#x", -v, got, want)
		}
	}
	for code := range 0x7e { // ties, and their neighbours
		tie := (value(code) + value(code+1)) / 2
		check(tie)
		check(float64(math.Nextafter32(float32(tie), 0)))
		check(float64(math.Nextafter32(float32(tie), 1000)))
	}
	for v := 1e-5; v < 1e4; v *= 1.01 {
		check(v)
	}
	check(math.MaxFloat32)
	check(math.Inf(1))
	if !math.IsNaN(float64(ToE4M3(float32(math.NaN())).Float32())) {
		t.Error("NaN became a number")
	}
}

func TestQuantizeE4M3(t *testing.T) {
	codes := make([]E4M3, 4)
	if scale := QuantizeE4M3(codes, []float32{-7, 3.5, 0, 1.75}); scale != 7.0/448 || codes[0] != 0xfe || codes[1].Float32() != 224 || codes[2] != 0 || codes[3].Float32() != 112 {
		t.Errorf("scale %v, codes %#x", scale, codes)
	}
	if scale := QuantizeE4M3(codes, make([]float32, 4)); !(scale > 0) || codes[0] != 0 || codes[3] != 0 {
		t.Errorf("of zeros: scale %v, codes %#x", scale, codes)
	}
}

func TestHostTensorCheck(t *testing.T) {
	good := HostTensor{Name: "w", Type: F8E4M3, Rows: 2, Cols: 3, Data: make([]byte, 6), Scale: make([]float32, 2)}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	short, unscaled, scaled := good, good, HostTensor{Name: "w", Type: BF16, Rows: 1, Cols: 3, Data: make([]byte, 6), Scale: make([]float32, 1)}
	short.Data, unscaled.Scale = short.Data[:5], nil
	for name, tensor := range map[string]HostTensor{"short": short, "unscaled": unscaled, "scaled": scaled, "empty": {}} {
		if tensor.Check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if good.CheckUnquantized() == nil {
		t.Error("FP8 where no scales are used: no error")
	}
}
