package simt_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
)

// weightsOnDevice is a backend whose matrices are made on the simulated device.
func weightsOnDevice(t *testing.T) cuda.Random {
	b := cuda.Random{Backend: cuda.New(simt.New()), Stream: weights.Random{Seed: 3}.Stream}
	t.Cleanup(b.Close)
	return b
}

// TestFillEqualsHost: a matrix made on the device has the bits that the host makes of the same name,
// and nothing beside it is written.
func TestFillEqualsHost(t *testing.T) {
	const rows, cols, from = 37, 130, 40
	b := weightsOnDevice(t)
	want, err := weights.Random{Seed: 3, Type: kernels.BF16}.Tensor("model.layers.1.mlp.up_proj.weight", rows, cols)
	if err != nil {
		t.Fatal(err)
	}
	buf, err := b.Alloc(2 * (from + rows*cols + 8))
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Free()
	key, scale := b.Stream(want.Name, cols)
	b.Fill(buf, from, rows*cols, key, scale)
	got := make([]byte, buf.Bytes())
	b.Read(got, buf, 0)
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	if end := 2 * (from + rows*cols); !bytes.Equal(got[2*from:end], want.Data) || bytes.ContainsFunc(got[:2*from], isSet) || bytes.ContainsFunc(got[end:], isSet) {
		t.Error("the device's matrix is not the host's")
	}
	b.Fill(buf, 49, rows*cols, key, scale)
	if err := b.Sync(); err == nil {
		t.Error("a fill past the end of its buffer was not refused")
	}
}

func isSet(r rune) bool { return r != 0 }

// TestFillIsRandom: the numbers have the mean and deviation that Stream says, neighbours do not
// follow one another, and tensors of other names are others.
func TestFillIsRandom(t *testing.T) {
	const n = 1 << 16
	b := weightsOnDevice(t)
	make64 := func(name string) []float64 {
		buf, err := b.Alloc(2 * n)
		if err != nil {
			t.Fatal(err)
		}
		defer buf.Free()
		key, scale := b.Stream(name, 64)
		b.Fill(buf, 0, n, key, scale)
		raw, values := make([]byte, 2*n), make([]float64, n)
		b.Read(raw, buf, 0)
		for i := range values {
			values[i] = float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw[2*i:])) << 16))
		}
		return values
	}
	a, other := make64("a.weight"), make64("b.weight")
	var sum, square, next, across float64
	for i, v := range a {
		sum, square, next, across = sum+v, square+v*v, next+v*a[(i+1)%n], across+v*other[i]
	}
	deviation := math.Sqrt(square / n)
	if math.Abs(deviation-0.125) > 0.125*0.02 { // 1/sqrt(64)
		t.Errorf("deviation %v, want 0.125", deviation)
	}
	// Five standard errors of n independent values.
	for what, v := range map[string]float64{"mean": sum / deviation, "neighbours": next / square * n, "tensors": across / square * n} {
		if math.Abs(v) > 5*math.Sqrt(n) {
			t.Errorf("%s: %v standard errors from 0", what, v/math.Sqrt(n))
		}
	}
}

// TestRandomMatrices: layers made on the device compute what the same layers do when uploaded, in
// bfloat16 and in codes.
func TestRandomMatrices(t *testing.T) {
	for name, c := range map[string]struct {
		typ        kernels.DType
		weightOnly bool
		in         int
	}{
		"bfloat16": {kernels.BF16, false, 64}, "FP8": {kernels.F8E4M3, false, 64},
		"int8": {kernels.I8, false, 64}, "int8, filled up": {kernels.I8, false, 61}, "int8 alone": {kernels.I8, true, 61},
	} {
		t.Run(name, func(t *testing.T) {
			source := weights.Random{Seed: 3, Type: c.typ}
			b := cuda.Random{Backend: cuda.New(simt.NewFP8(cuda.FP8Scaled)), Stream: source.Stream}
			t.Cleanup(b.Close)
			var hosts, names []kernels.HostTensor
			for name, rows := range map[string]int{"layers.0.q_proj.weight": 48, "layers.0.k_proj.weight": 16} {
				host, err := source.Tensor(name, rows, c.in)
				if err != nil {
					t.Fatal(err)
				}
				host.WeightOnly = c.weightOnly
				hosts = append(hosts, host)
				names = append(names, kernels.HostTensor{Name: name, Type: c.typ, Rows: rows, Cols: c.in, WeightOnly: c.weightOnly})
			}
			uploaded, err := b.Backend.NewLinear(hosts, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer uploaded.Free()
			made, err := b.NewLinear(names, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer made.Free()
			if made.In() != c.in || made.Out() != 64 || made.Bytes() != uploaded.Bytes() {
				t.Errorf("a matrix of %d x %d in %d bytes, want %d", made.Out(), made.In(), made.Bytes(), uploaded.Bytes())
			}
			if !bytes.Equal(product(t, b, made), product(t, b, uploaded)) {
				t.Error("the made matrix is not the uploaded one")
			}
			if _, err := b.NewLinear(hosts, nil); err == nil {
				t.Error("data for a matrix that is made on the device was not refused")
			}
		})
	}
}

// product multiplies some rows by l.
func product(t *testing.T, b cuda.Random, l kernels.Linear) []byte {
	t.Helper()
	const rows = 3
	x, err := b.Alloc(4 * rows * int64(l.Out()))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Free()
	src, err := b.Alloc(2 * rows * int64(l.In()))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Free()
	b.Fill(src, 0, rows*int64(l.In()), 1, 1e-5)
	b.AddLinear(kernels.Mat{Buf: x, Rows: rows, Cols: l.Out(), Stride: l.Out(), Type: kernels.F32},
		kernels.Mat{Buf: src, Rows: rows, Cols: l.In(), Stride: l.In(), Type: kernels.BF16}, l)
	out := make([]byte, x.Bytes())
	b.Read(out, x, 0)
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	return out
}
