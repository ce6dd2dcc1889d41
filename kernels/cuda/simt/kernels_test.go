package simt_test

import (
	"encoding/binary"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/kerneltest"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
)

const threads = 256 // PF_BLOCK

// bench is a device with arrays of numbers on it.
type bench struct {
	*testing.T
	*simt.Device
}

func (b bench) upload(raw []byte) uint64 {
	b.Helper()
	p, err := b.Alloc(int64(len(raw)))
	if err != nil {
		b.Fatal(err)
	}
	b.Upload(p, raw)
	return uint64(p)
}

func (b bench) floats(values []float32) uint64 {
	var raw []byte
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return b.upload(raw)
}

func (b bench) bytes(at uint64, n int) []byte {
	b.Helper()
	raw := make([]byte, n)
	b.Download(raw, cuda.Ptr(at))
	if err := b.Sync(); err != nil {
		b.Fatal(err)
	}
	return raw
}

func (b bench) float32s(at uint64, n int) []float32 {
	b.Helper()
	raw := b.bytes(at, 4*n)
	values := make([]float32, n)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return values
}

func newBench(t *testing.T) bench {
	b := bench{t, simt.New()}
	t.Cleanup(b.Close)
	return b
}

func normals(n int) []float32 {
	random := rand.New(rand.NewPCG(5, 6))
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(random.NormFloat64())
	}
	return v
}

// TestReductions: every thread gets the block's sum and maximum, also when one follows another.
func TestReductions(t *testing.T) {
	b := newBench(t)
	in := normals(threads)
	sum, low, high := 0.0, float32(math.Inf(1)), float32(math.Inf(-1))
	for _, v := range in {
		sum, low, high = sum+float64(v), min(low, v), max(high, v)
	}
	out := b.floats(make([]float32, 4*threads))
	for range 64 { // orders of the warps
		b.Launch("reductions", [2]int{1, 1}, threads, out, b.floats(in))
		got := b.float32s(out, 4*threads)
		for i := 0; i < len(got); i += 4 {
			if math.Abs(float64(got[i])-sum) > 1e-4 || got[i+1] != 2*got[i] || got[i+2] != high || got[i+3] != -low || got[i] != got[0] {
				t.Fatalf("thread %d has %v, want %v, %v, %v, %v", i/4, got[i:i+4], sum, 2*sum, high, -low)
			}
		}
	}
}

// e4m3 is the value of a code of FP8 E4M3: sign, 4 bits of exponent with bias 7, 3 of fraction; 0x7f
// is NaN (Micikevicius et al., FP8 Formats for Deep Learning, 2022, table 1).
func e4m3(code byte) float64 {
	exponent, fraction := int(code>>3&15), float64(code&7)/8
	v := math.Ldexp(1+fraction, exponent-7)
	switch {
	case code&0x7f == 0x7f:
		v = math.NaN()
	case exponent == 0:
		v = math.Ldexp(fraction, -6)
	}
	return math.Copysign(v, 1-2*float64(code>>7))
}

// nearest is the distance from v to the nearest E4M3 value.
func nearest(v float64) float64 {
	best := math.Inf(1)
	for code := range 256 {
		if d := math.Abs(e4m3(byte(code)) - v); d < best {
			best = d
		}
	}
	return best
}

func bfloat16s(values []float32) (raw []byte, rounded []float64) {
	for _, v := range values {
		u := math.Float32bits(v) &^ 0xffff // towards zero is a rounding too
		raw = binary.LittleEndian.AppendUint16(raw, uint16(u>>16))
		rounded = append(rounded, float64(math.Float32frombits(u)))
	}
	return raw, rounded
}

// TestDequantise covers every code.
func TestDequantise(t *testing.T) {
	b := newBench(t)
	codes := make([]byte, 512)
	for i := range codes {
		codes[i] = byte(i)
	}
	scales := []float32{1, 0.25}
	out := b.upload(make([]byte, 1024))
	b.Launch("pf_dequantise_fp8", [2]int{2, 3}, 64, out, b.upload(codes), b.floats(scales), 256)
	raw := b.bytes(out, 1024)
	for i, code := range codes {
		got := float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw[2*i:])) << 16))
		want := e4m3(code) * float64(scales[i/256])
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("code %#x in row %d is %v, want %v", code, i/256, got, want)
		}
	}
}

// checkQuantised: codes times scale is as near to want as E4M3 allows, and the largest is 448.
func checkQuantised(t *testing.T, codes []byte, scale float32, want []float64, slack float64) {
	t.Helper()
	top := 0.0
	for _, v := range want {
		top = max(top, math.Abs(v))
	}
	if s := float64(scale) * 448; math.Abs(s-top) > slack*top {
		t.Errorf("scale * 448 is %v, want the row's largest, %v", s, top)
	}
	for i, code := range codes {
		unscaled := want[i] / float64(scale)
		if e := math.Abs(e4m3(code) - unscaled); !(e <= nearest(unscaled)+2*slack*math.Abs(unscaled)+1e-3) {
			t.Fatalf("element %d is code %#x = %v, want %v", i, code, e4m3(code), unscaled)
		}
	}
}

// TestQuantisedNorm: three rows of RMSNorm in FP8, one of zeros.
func TestQuantisedNorm(t *testing.T) {
	const rows, cols = 3, 300
	b := newBench(t)
	x, w := normals(rows*cols), normals(cols)
	clear(x[cols : 2*cols])
	codes, scales := b.upload(make([]byte, rows*cols)), b.floats(make([]float32, rows))
	b.Launch("pf_norm_fp8", [2]int{rows, 1}, threads, codes, cols, scales, b.floats(x), cols, b.floats(w), 0, cols, uint64(math.Float32bits(1e-5)), 0)
	got, gotScales := b.bytes(codes, rows*cols), b.float32s(scales, rows)
	for r := range rows {
		square := 0.0
		for _, v := range x[r*cols : (r+1)*cols] {
			square += float64(v) * float64(v)
		}
		want := make([]float64, cols)
		for i := range want {
			want[i] = float64(x[r*cols+i]) / math.Sqrt(square/cols+1e-5) * float64(w[i])
		}
		if r == 1 {
			for i, code := range got[cols : 2*cols] {
				if code&0x7f != 0 {
					t.Fatalf("element %d of a row of zeros is code %#x", i, code)
				}
			}
			continue
		}
		checkQuantised(t, got[r*cols:(r+1)*cols], gotScales[r], want, 1.0/256)
	}
}

// TestQuantisedActivation: act(gate) * up in FP8, and act alone of what is not gated.
func TestQuantisedActivation(t *testing.T) {
	const rows, inter = 2, 520
	b := newBench(t)
	raw, v := bfloat16s(normals(rows * 2 * inter))
	codes, scales := b.upload(make([]byte, rows*inter)), b.floats(make([]float32, rows))
	for act := kernels.SiLU; act <= kernels.GELUTanh; act++ {
		for _, cols := range []int{inter, 2 * inter} {
			b.Launch("pf_activate_fp8", [2]int{rows, 1}, threads, codes, inter, scales, b.upload(raw), uint64(cols), inter, uint64(act))
			got, gotScales := b.bytes(codes, rows*inter), b.float32s(scales, rows)
			for r := range rows {
				want := make([]float64, inter)
				for i := range want {
					if want[i] = kerneltest.Activate(v[r*cols+i], act); cols > inter {
						want[i] *= v[r*cols+inter+i]
					}
				}
				checkQuantised(t, got[r*inter:(r+1)*inter], gotScales[r], want, 1.0/256)
			}
		}
	}
}
