package simt_test

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// rowsToQuantise are rows of bfloat16 values: random ones, ties, the smallest and the largest, zeros, and no numbers.
func rowsToQuantise(cols int) [][]float32 {
	random := normals(8 * cols)
	rows := make([][]float32, 8)
	for i := range rows {
		for _, v := range random[i*cols : (i+1)*cols] {
			rows[i] = append(rows[i], math.Float32frombits(math.Float32bits(v)&^0xffff))
		}
	}
	for j := range cols {
		rows[1][j] = -127.5 + float32(j%256) // every code and a half: ties
		rows[2][j] *= 0x1p-120
		rows[3][j] = 0x1p-133 * float32(j%3-1) // multiples of the least bfloat16
		rows[4][j] *= 0x1p120
		rows[5][j] = 0
	}
	rows[6][cols/2] = float32(math.Inf(-1))
	rows[7][cols-1] = float32(math.NaN())
	return rows
}

func bits(rows [][]float32) (raw []byte) {
	for _, row := range rows {
		for _, v := range row {
			raw = binary.LittleEndian.AppendUint16(raw, uint16(math.Float32bits(v)>>16))
		}
	}
	return raw
}

// TestQuantiseInt8: codes and scales are those of kernels.QuantizeI8, to the bit, and what rows are filled up with is not
// written.
func TestQuantiseInt8(t *testing.T) {
	const cols, stride = 333, 336
	b := newBench(t)
	rows := rowsToQuantise(cols)
	codes, scales := b.upload(make([]byte, len(rows)*stride)), b.floats(make([]float32, len(rows)))
	b.Launch("pf_quantise_int8", [2]int{len(rows), 1}, threads, codes, stride, scales, b.upload(bits(rows)), cols, cols)
	got, gotScales := b.bytes(codes, len(rows)*stride), b.float32s(scales, len(rows))
	for i, row := range rows {
		want := make([]int8, cols)
		scale := kernels.QuantizeI8(want, row)
		if math.Float32bits(gotScales[i]) != math.Float32bits(scale) && !(gotScales[i] != gotScales[i] && scale != scale) {
			t.Errorf("row %d has the scale %v, want %v", i, gotScales[i], scale)
		}
		for j := range stride {
			code := int8(0) // of what is no number, too
			if j < cols && row[j]/scale == row[j]/scale {
				code = want[j]
			}
			if int8(got[i*stride+j]) != code {
				t.Errorf("row %d, element %d (%v) has the code %d, want %d", i, j, row[min(j, cols-1)], int8(got[i*stride+j]), code)
			}
		}
	}
}

// TestWidenInt8: every code is exact in bfloat16, in whole groups of eight and beyond them.
func TestWidenInt8(t *testing.T) {
	b := newBench(t)
	codes := make([]byte, 261)
	for i := range codes {
		codes[i] = byte(i)
	}
	out := b.upload(make([]byte, 2*len(codes)))
	b.Launch("pf_widen_int8", [2]int{3, 1}, threads, out, b.upload(codes), uint64(len(codes)))
	for i, raw := 0, b.bytes(out, 2*len(codes)); i < len(codes); i++ {
		if got := math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw[2*i:])) << 16); got != float32(int8(codes[i])) {
			t.Errorf("code %d became %v", int8(codes[i]), got)
		}
	}
}

// TestInt8EqualsReference: products in int8 with bias, added to what is there, have the reference's bits, of rows of every kind.
func TestInt8EqualsReference(t *testing.T) {
	const in, out = 333, 50
	rows := rowsToQuantise(in)
	w := kernels.HostTensor{Name: "w", Type: kernels.I8, Rows: out, Cols: in}
	bias := kernels.HostTensor{Name: "bias", Type: kernels.BF16, Rows: 1, Cols: out}
	for i, v := range normals(out) {
		w.Scale = append(w.Scale, v*v+0.01)
		bias.Data = binary.LittleEndian.AppendUint16(bias.Data, uint16(math.Float32bits(v)>>16))
		for j := range in {
			w.Data = append(w.Data, byte(i*i+j*(2*i+1)))
		}
	}
	gpu := cuda.New(simt.New())
	t.Cleanup(gpu.Close)
	got, want := added(t, gpu, rows, w, bias), added(t, ref.New(), rows, w, bias)
	for i := range want {
		if g, w := got[i], want[i]; math.Float32bits(g) != math.Float32bits(w) && !(g != g && w != w) {
			t.Fatalf("row %d, column %d is %v, the reference's %v", i/out, i%out, g, w)
		}
	}
}

// added is rows w^T + bias, added to small numbers.
func added(t *testing.T, b kernels.Backend, rows [][]float32, w, bias kernels.HostTensor) []float32 {
	t.Helper()
	l, err := b.NewLinear([]kernels.HostTensor{w}, []kernels.HostTensor{bias})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Free()
	mat := func(typ kernels.DType, cols int, raw []byte) kernels.Mat {
		buf, err := b.Alloc(int64(len(raw)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(buf.Free)
		b.Write(buf, 0, raw)
		return kernels.Mat{Buf: buf, Rows: len(rows), Cols: cols, Stride: cols, Type: typ}
	}
	src := bits(rows)
	if b.ActType() == kernels.F32 {
		var wide []byte
		for i := 0; i < len(src); i += 2 {
			wide = append(wide, 0, 0, src[i], src[i+1])
		}
		src = wide
	}
	var before []byte
	for i := range len(rows) * l.Out() {
		before = binary.LittleEndian.AppendUint32(before, math.Float32bits(float32(i)/3))
	}
	x := mat(kernels.F32, l.Out(), before)
	b.AddLinear(x, mat(b.ActType(), l.In(), src), l)
	b.Read(before, x.Buf, 0)
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	sums := make([]float32, len(before)/4)
	for i := range sums {
		sums[i] = math.Float32frombits(binary.LittleEndian.Uint32(before[4*i:]))
	}
	return sums
}

// without is a device that multiplies no int8 of some shape.
type without struct{ cuda.Device }

var errNone = errors.New("status 15")

func (without) Int8(n, k int) error {
	if n == 48 && k == 64 {
		return errNone
	}
	return nil
}

// TestInt8Refused: a shape that the device does not multiply is refused by the matrix's name when it is made, and its memory is
// given back; int8 weights alone need no such product.
func TestInt8Refused(t *testing.T) {
	b := cuda.New(without{simt.New()})
	t.Cleanup(b.Close)
	tensor := kernels.HostTensor{Name: "down_proj.weight", Type: kernels.I8, Rows: 48, Cols: 60, Data: make([]byte, 48*60), Scale: make([]float32, 48)}
	if _, err := b.NewLinear([]kernels.HostTensor{tensor}, nil); !errors.Is(err, errNone) || !strings.Contains(err.Error(), `"down_proj.weight"`) {
		t.Errorf("error %v", err)
	}
	if free, total, err := b.Memory(); err != nil || free != total {
		t.Errorf("%d of %d bytes are free afterwards, %v", free, total, err)
	}
	tensor.WeightOnly = true
	l, err := b.NewLinear([]kernels.HostTensor{tensor}, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.Free()
}
