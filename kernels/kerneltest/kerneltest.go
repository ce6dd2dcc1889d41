// Package kerneltest is the suite that every kernels.Backend runs: each operation against a slow
// oracle in float64, the independence of a row's bits from everything around it, random shapes, and
// benchmarks.
package kerneltest

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// Tolerance bounds the error of a backend. Max bounds the error of each element, relative to the
// larger of its expected value and the root mean square of all expected values; RMS bounds the root
// mean square of the errors, relative to that of the expected values. Where an operation adds, the
// values are what it adds.
type Tolerance struct {
	Max, RMS float64
}

// Open makes a backend for one test and arranges for its Close.
type Open = func(t testing.TB) kernels.Backend

// Run tests every operation of the backend that open returns.
func Run(t *testing.T, open Open, tol Tolerance) {
	s := suite{open: open, tol: tol}
	t.Run("Buffer", s.testBuffer)
	t.Run("Free", s.testFree)
	t.Run("Embed", s.testEmbed)
	t.Run("NormLinear", s.testNormLinear)
	t.Run("AddLinear", s.testAddLinear)
	t.Run("MLP", s.testMLP)
	t.Run("Logits", s.testLogits)
	t.Run("Attention", s.testAttention)
	t.Run("CopiedBlocks", s.testCopiedBlocks)
	t.Run("AttentionExtremes", s.testAttentionExtremes)
	t.Run("NormExtremes", s.testNormExtremes)
	t.Run("RowsOfLinears", s.testRowsOfLinears)
	t.Run("RowsOfAttention", s.testRowsOfAttention)
	t.Run("Malformed", s.testMalformed)
	t.Run("Rank", s.testRank)
}

type suite struct {
	open Open
	tol  Tolerance
}

// device is a backend with the test that uses it and a source of inputs seeded by the test's name.
type device struct {
	kernels.Backend
	t      testing.TB
	random *rand.Rand

	weightOnly bool // of weights in int8
}

func newDevice(t testing.TB, open Open) *device {
	name := fnv.New64a()
	name.Write([]byte(t.Name()))
	return &device{Backend: open(t), t: t, random: rand.New(rand.NewPCG(name.Sum64(), 1))}
}

// within is d in a part of its test.
func (d *device) within(t testing.TB) *device {
	part := *d
	part.t = t
	return &part
}

// normal is n values of a normal distribution.
func (d *device) normal(n int, deviation float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = d.random.NormFloat64() * deviation
	}
	return v
}

// sync fails the test if an operation has failed.
func (d *device) sync() {
	d.t.Helper()
	if err := d.Sync(); err != nil {
		d.t.Fatalf("Sync: %v", err)
	}
}

func (d *device) alloc(bytes int64) kernels.Buffer {
	d.t.Helper()
	b, err := d.Alloc(bytes)
	if err != nil {
		d.t.Fatalf("Alloc(%d): %v", bytes, err)
	}
	d.t.Cleanup(b.Free)
	return b
}

// padding of matrices, in elements: the view starts after some and rows end with some, which hold
// NaN and must neither be read into a result nor be written.
const (
	matOffset  = 32
	matPadding = 5
)

// mat uploads rows x cols values, rounded to typ; nil values make a matrix of NaN for results.
func (d *device) mat(typ kernels.DType, rows, cols int, values []float64) kernels.Mat {
	d.t.Helper()
	m := kernels.Mat{Off: matOffset * typ.Size(), Rows: rows, Cols: cols, Stride: cols + matPadding, Type: typ}
	m.Buf = d.alloc((matOffset + int64(rows)*int64(m.Stride)) * typ.Size())
	all := make([]float64, matOffset+rows*m.Stride)
	for i := range all {
		all[i] = math.NaN()
	}
	for i := range rows {
		if values != nil {
			copy(all[matOffset+i*m.Stride:], values[i*cols:(i+1)*cols])
		}
	}
	d.Write(m.Buf, 0, encode(typ, all))
	return m
}

// values downloads a matrix and checks that its padding is untouched.
func (d *device) values(m kernels.Mat) []float64 {
	d.t.Helper()
	d.sync()
	raw := make([]byte, m.Buf.Bytes())
	d.Read(raw, m.Buf, 0)
	all := decode(m.Type, raw)
	start := int(m.Off / m.Type.Size())
	out := make([]float64, 0, m.Rows*m.Cols)
	for i := range m.Rows {
		at := start + i*m.Stride
		out = append(out, all[at:at+m.Cols]...)
		for j := at + m.Cols; j < at+m.Stride; j++ {
			if !math.IsNaN(all[j]) {
				d.t.Fatalf("padding of row %d was overwritten with %v", i, all[j])
			}
		}
	}
	return out
}

// check compares results with what the oracle says.
func (d *device) check(what string, tol Tolerance, got, want []float64) {
	d.t.Helper()
	if len(got) != len(want) {
		d.t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	square, squareError := 0.0, 0.0
	for i := range want {
		e := got[i] - want[i]
		if math.IsNaN(e) {
			d.t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], want[i])
		}
		square += want[i] * want[i]
		squareError += e * e
	}
	n := float64(max(1, len(want)))
	scale, rms := math.Sqrt(square/n), math.Sqrt(squareError/n)
	if rms > tol.RMS*scale {
		d.t.Errorf("%s: root mean square of errors %.3g, bound %.3g", what, rms, tol.RMS*scale)
	}
	for i := range want {
		if e, bound := math.Abs(got[i]-want[i]), tol.Max*max(scale, math.Abs(want[i])); e > bound {
			d.t.Errorf("%s: element %d is %v, want %v: error %.3g, bound %.3g", what, i, got[i], want[i], e, bound)
			return
		}
	}
}

func minus(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] - b[i]
	}
	return out
}
