package kerneltest

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// fixture is what a test of kernels works with: a backend, operands drawn for it, each with the values that it stands for, and what is
// read of results.
type fixture struct {
	kernels.Backend
	T      testing.TB
	Random *rand.Rand

	WeightOnly bool // of weights in int8
}

// newFixture is a backend in a test, whose name is the seed of its inputs.
func newFixture(t testing.TB, b kernels.Backend) *fixture {
	name := fnv.New64a()
	name.Write([]byte(t.Name()))
	return &fixture{Backend: b, T: t, Random: rand.New(rand.NewPCG(name.Sum64(), 1))}
}

// Within is d in a part of its test.
func (d *fixture) Within(t testing.TB) *fixture {
	part := *d
	part.T = t
	return &part
}

// Normal is n values of a normal distribution.
func (d *fixture) Normal(n int, deviation float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = d.Random.NormFloat64() * deviation
	}
	return v
}

// MustSync fails the test if an operation has failed.
func (d *fixture) MustSync() {
	d.T.Helper()
	if err := d.Sync(); err != nil {
		d.T.Fatalf("Sync: %v", err)
	}
}

// MustAlloc is memory until the test ends.
func (d *fixture) MustAlloc(bytes int64) kernels.Buffer {
	d.T.Helper()
	b, err := d.Alloc(bytes)
	if err != nil {
		d.T.Fatalf("Alloc(%d): %v", bytes, err)
	}
	d.T.Cleanup(b.Free)
	return b
}

// padding of matrices, in elements: the view starts after some and rows end with some, which hold
// NaN and must neither be read into a result nor be written.
const (
	matOffset  = 32
	matPadding = 5
)

// Mat uploads rows x cols values, rounded to typ; nil values make a matrix of NaN for results.
func (d *fixture) Mat(typ kernels.DType, rows, cols int, values []float64) kernels.Mat {
	d.T.Helper()
	m := kernels.Mat{Off: matOffset * typ.Size(), Rows: rows, Cols: cols, Stride: cols + matPadding, Type: typ}
	m.Buf = d.MustAlloc((matOffset + int64(rows)*int64(m.Stride)) * typ.Size())
	all := make([]float64, matOffset+rows*m.Stride)
	for i := range all {
		all[i] = math.NaN()
	}
	for i := range rows {
		if values != nil {
			copy(all[matOffset+i*m.Stride:], values[i*cols:(i+1)*cols])
		}
	}
	d.Write(m.Buf, 0, Encode(typ, all))
	return m
}

// Values downloads a matrix and checks that its padding is untouched.
func (d *fixture) Values(m kernels.Mat) []float64 {
	d.T.Helper()
	d.MustSync()
	raw := make([]byte, m.Buf.Bytes())
	d.Read(raw, m.Buf, 0)
	all := Decode(m.Type, raw)
	start := int(m.Off / m.Type.Size())
	out := make([]float64, 0, m.Rows*m.Cols)
	for i := range m.Rows {
		at := start + i*m.Stride
		out = append(out, all[at:at+m.Cols]...)
		for j := at + m.Cols; j < at+m.Stride; j++ {
			if !math.IsNaN(all[j]) {
				d.T.Fatalf("padding of row %d was overwritten with %v", i, all[j])
			}
		}
	}
	return out
}

// RowBits is the memory of each row of a matrix.
func (d *fixture) RowBits(m kernels.Mat) [][]byte {
	d.T.Helper()
	d.MustSync()
	raw := make([]byte, m.Buf.Bytes())
	d.Read(raw, m.Buf, 0)
	rows := make([][]byte, m.Rows)
	for i := range rows {
		at := m.Off + int64(i)*int64(m.Stride)*m.Type.Size()
		rows[i] = raw[at : at+int64(m.Cols)*m.Type.Size()]
	}
	return rows
}
