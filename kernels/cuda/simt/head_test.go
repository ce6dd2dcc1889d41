package simt_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
)

// wide is more columns than one product has, by a number that fills no group.
const wide = 2*32768 + 53

// made is a random matrix.
func made(t *testing.T, name string, typ kernels.DType, weightOnly bool, rows, cols int) kernels.HostTensor {
	t.Helper()
	m, err := weights.Random{Seed: 5, Type: typ}.Tensor(name, rows, cols)
	if err != nil || m.Type != typ {
		t.Fatalf("%s is %s: %v", name, m.Type, err)
	}
	m.WeightOnly = weightOnly
	return m
}

// inputs are rows of x, and the weights of their normalisation.
func inputs(t *testing.T, b kernels.Backend, rows, cols int) (kernels.Mat, kernels.Vector) {
	t.Helper()
	norm, err := b.NewVector(made(t, "norm", kernels.BF16, false, 1, cols))
	if err != nil {
		t.Fatal(err)
	}
	x := kernels.Mat{Rows: rows, Cols: cols, Stride: cols}
	if x.Buf, err = b.Alloc(4 * int64(rows*cols)); err != nil {
		t.Fatal(err)
	}
	var raw []byte
	for _, v := range normals(rows * cols) {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	b.Write(x.Buf, 0, raw)
	t.Cleanup(func() { norm.Free(); x.Buf.Free() })
	return x, norm
}

// computed is the result of call, in rows that are 3 elements apart from one another, between which nothing may be written.
func computed(t *testing.T, b kernels.Backend, typ kernels.DType, rows, cols int, call func(dst kernels.Mat)) []float32 {
	t.Helper()
	const between = 3
	dst := kernels.Mat{Rows: rows, Cols: cols, Stride: cols + between, Type: typ}
	var err error
	if dst.Buf, err = b.Alloc(typ.Size() * int64(rows*dst.Stride)); err != nil {
		t.Fatal(err)
	}
	defer dst.Buf.Free()
	call(dst)
	raw, values := make([]byte, dst.Buf.Bytes()), make([]float32, rows*dst.Stride)
	b.Read(raw, dst.Buf, 0)
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	kernels.Expand(values, typ, raw)
	var all []float32
	for i := range rows {
		row := values[i*dst.Stride : (i+1)*dst.Stride]
		all = append(all, row[:cols]...)
		for _, v := range row[cols:] {
			if v != 0 {
				t.Fatalf("row %d is followed by %v", i, v)
			}
		}
	}
	return all
}

// equal compares rows of results: to the bit where sums are exact, and else up to their order.
func equal(t *testing.T, what string, exact bool, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i, w := range want {
		if g := got[i]; g != w && (exact || !(math.Abs(float64(g-w)) < 1e-4)) {
			t.Fatalf("%s: value %d is %v, want %v", what, i, g, w)
		}
	}
}

// TestHeadInPieces: logits of a vocabulary wider than one product are those of its listed rows, and of views that begin and end
// anywhere, in the memory that ScratchBytes says, which is less than rows of the vocabulary take.
func TestHeadInPieces(t *testing.T) {
	const rows, hidden = 40, 19
	for _, weightOnly := range []bool{false, true} {
		t.Run(fmt.Sprintf("weightOnly=%t", weightOnly), func(t *testing.T) {
			device := &counted{Device: simt.New(), sizes: map[cuda.Ptr]int64{}}
			b := cuda.New(device)
			t.Cleanup(b.Close)
			head, err := b.NewTable(made(t, "head_proj.weight", kernels.I8, weightOnly, wide, hidden))
			if err != nil {
				t.Fatal(err)
			}
			defer head.Free()
			largest, filled := kernels.LargestCodes{I8: wide * hidden}, 32
			if weightOnly {
				largest, filled = kernels.LargestCodes{I8Alone: wide * hidden}, hidden
			}
			if got, most := head.Bytes(), int64((wide+15)*filled+4*wide); got > most {
				t.Errorf("the head takes %d bytes, want at most %d", got, most)
			}
			x, norm := inputs(t, b, rows, hidden)
			logits := func(part kernels.Table, ids []uint32) []float32 {
				cols := part.Rows()
				if ids != nil {
					cols = len(ids)
				}
				return computed(t, b, kernels.F32, rows, cols, func(dst kernels.Mat) { b.Logits(dst, x, kernels.Norm{Weight: norm, Eps: 1e-5}, part, ids) })
			}
			before := device.used
			all := logits(head, nil)
			taken, planned := device.used-before, b.ScratchBytes(rows, hidden, wide, largest)
			if taken > planned+4<<10 || taken > 4*rows*wide*3/5 || planned > 4*rows*wide*3 {
				t.Errorf("logits took %d bytes, ScratchBytes says %d; the logits are %d", taken, planned, 4*rows*wide)
			}
			columns := func(ids ...uint32) (picked []float32) {
				for i := range rows {
					for _, id := range ids {
						picked = append(picked, all[i*wide+int(id)])
					}
				}
				return picked
			}
			ids := []uint32{wide - 1, 0, 21855, 21856, 21871, 21872, 21873, 43743, 43744, 65535, 65536, 7, 7}
			equal(t, "listed", !weightOnly, logits(head, ids), columns(ids...))
			for _, v := range []struct{ from, to int }{{0, 1}, {7, 40}, {5, 33000}, {wide - 33, wide - 1}, {wide - 1, wide}} {
				var ids []uint32
				for id := v.from; id < v.to; id++ {
					ids = append(ids, uint32(id))
				}
				equal(t, fmt.Sprint(v), !weightOnly, logits(b.SubTable(head, v.from, v.to), nil), columns(ids...))
			}
		})
	}
}

// TestLinearInPieces: a layer wider than one product computes what its parts do, with bias.
func TestLinearInPieces(t *testing.T) {
	const rows, in, first = 3, 16, 32768 - 16
	for name, c := range map[string]struct {
		typ        kernels.DType
		weightOnly bool
	}{"int8": {kernels.I8, false}, "int8 alone": {kernels.I8, true}, "FP8": {kernels.F8E4M3, false}} {
		t.Run(name, func(t *testing.T) {
			b := cuda.New(simt.NewFP8(cuda.FP8Sums))
			t.Cleanup(b.Close)
			tensors := func(name string, n int) (w, bias kernels.HostTensor) {
				return made(t, name, c.typ, c.weightOnly, n, in), made(t, name+" bias", kernels.BF16, false, 1, n)
			}
			wa, ba := tensors("gate_proj.weight", first)
			wb, bb := tensors("up_proj.weight", 48)
			x, norm := inputs(t, b, rows, in)
			product := func(w, bias []kernels.HostTensor) []float32 {
				l, err := b.NewLinear(w, bias)
				if err != nil {
					t.Fatal(err)
				}
				defer l.Free()
				return computed(t, b, kernels.BF16, rows, l.Out(), func(dst kernels.Mat) { b.NormLinear(dst, x, kernels.Norm{Weight: norm, Eps: 1e-5}, l) })
			}
			left, right := product([]kernels.HostTensor{wa}, []kernels.HostTensor{ba}), product([]kernels.HostTensor{wb}, []kernels.HostTensor{bb})
			var want []float32
			for i := range rows {
				want = append(append(want, left[i*first:(i+1)*first]...), right[i*48:(i+1)*48]...)
			}
			equal(t, "both", true, product([]kernels.HostTensor{wa, wb}, []kernels.HostTensor{ba, bb}), want)
		})
	}
}

// TestRandomHead: a head made on the device computes what it does when uploaded.
func TestRandomHead(t *testing.T) {
	for name, c := range map[string]struct {
		typ        kernels.DType
		weightOnly bool
	}{"bfloat16": {kernels.BF16, false}, "int8": {kernels.I8, false}, "int8 alone": {kernels.I8, true}} {
		t.Run(name, func(t *testing.T) {
			b := cuda.Random{Backend: cuda.New(simt.New()), Stream: weights.Random{Seed: 5}.Stream}
			t.Cleanup(b.Close)
			tensor := made(t, "head_proj.weight", c.typ, c.weightOnly, 77, 61)
			uploaded, err := b.Backend.NewTable(tensor)
			if err != nil {
				t.Fatal(err)
			}
			defer uploaded.Free()
			tensor.Data, tensor.Scale = nil, nil
			onDevice, err := b.NewTable(tensor)
			if err != nil {
				t.Fatal(err)
			}
			defer onDevice.Free()
			x, norm := inputs(t, b, 2, 61)
			logits := func(head kernels.Table) []float32 {
				return computed(t, b, kernels.F32, 2, 77, func(dst kernels.Mat) { b.Logits(dst, x, kernels.Norm{Weight: norm, Eps: 1e-5}, head, nil) })
			}
			want := logits(uploaded)
			if !slices.ContainsFunc(want, func(v float32) bool { return v != 0 }) {
				t.Error("all logits are 0")
			}
			equal(t, "made", true, logits(onDevice), want)
		})
	}
}

// TestInt8HeadRefused: a head that the device does not multiply is refused by its name, and its memory is given back; of a view
// Sync says so.
func TestInt8HeadRefused(t *testing.T) {
	b := cuda.New(without{simt.New()})
	t.Cleanup(b.Close)
	if _, err := b.NewTable(made(t, "head_proj.weight", kernels.I8, false, 48, 60)); !errors.Is(err, errNone) || !strings.Contains(err.Error(), `"head_proj.weight"`) {
		t.Errorf("error %v", err)
	}
	if free, total, err := b.Memory(); err != nil || free != total {
		t.Errorf("%d of %d bytes are free afterwards, %v", free, total, err)
	}
	head, err := b.NewTable(made(t, "head_proj.weight", kernels.I8, false, 64, 60))
	if err != nil {
		t.Fatal(err)
	}
	defer head.Free()
	b.SubTable(head, 16, 64)
	if err := b.Sync(); !errors.Is(err, errNone) {
		t.Errorf("of a view: error %v", err)
	}
}
