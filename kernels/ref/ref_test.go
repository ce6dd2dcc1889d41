package ref

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

func f32s(values ...float32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func mat(t *testing.T, b kernels.Backend, rows, cols int, values ...float32) kernels.Mat {
	t.Helper()
	buf, err := b.Alloc(4 * int64(rows) * int64(cols))
	if err != nil {
		t.Fatal(err)
	}
	b.Write(buf, 0, f32s(values...))
	return kernels.Mat{Buf: buf, Rows: rows, Cols: cols, Stride: cols}
}

func TestMLPByHand(t *testing.T) {
	b := New()
	// One row (3, 4) with weight 1 normalises to (3, 4)/sqrt(12.5); gate and up read one column each.
	x := mat(t, b, 1, 2, 3, 4)
	w, err := b.NewVector(kernels.HostTensor{Rows: 1, Cols: 2, Data: f32s(1, 1)})
	if err != nil {
		t.Fatal(err)
	}
	gated, err := b.NewGatedLinear(kernels.HostTensor{Rows: 1, Cols: 2, Data: f32s(1, 0)}, kernels.HostTensor{Rows: 1, Cols: 2, Data: f32s(0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	down, err := b.NewLinear([]kernels.HostTensor{{Rows: 2, Cols: 1, Data: f32s(1, 2)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.MLP(x, kernels.Norm{Weight: w}, kernels.SiLU, gated, down)
	g, u := 3/math.Sqrt(12.5), 4/math.Sqrt(12.5)
	y := g / (1 + math.Exp(-g)) * u
	for i, want := range []float64{3 + y, 4 + 2*y} {
		if got := matrixRow(x, 0)[i]; math.Abs(float64(got)-want) > 1e-6 {
			t.Errorf("x[%d] = %v, want %v", i, got, want)
		}
	}
}

func TestMalformedTensors(t *testing.T) {
	b := New()
	short := kernels.HostTensor{Name: "w", Rows: 2, Cols: 2, Data: f32s(1, 2, 3)}
	square := kernels.HostTensor{Name: "square", Rows: 2, Cols: 2, Data: f32s(1, 2, 3, 4)}
	column := kernels.HostTensor{Name: "column", Rows: 2, Cols: 1, Data: f32s(1, 2)}
	_, shortLinear := b.NewLinear([]kernels.HostTensor{short}, nil)
	_, mixed := b.NewLinear([]kernels.HostTensor{square, column}, nil)
	_, wrongBias := b.NewLinear([]kernels.HostTensor{square}, []kernels.HostTensor{{Name: "bias", Rows: 1, Cols: 1, Data: f32s(1)}})
	_, uneven := b.NewGatedLinear(square, kernels.HostTensor{Name: "up", Rows: 1, Cols: 2, Data: f32s(1, 2)})
	for want, err := range map[string]error{
		`needs 16 bytes, got 12`: shortLinear, `"column" has 1 columns`: mixed, `"bias" has 1 elements`: wrongBias, `up "up" has 1`: uneven,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not contain %q", err, want)
		}
	}
}

func TestSyncReportsFirstErrorOnce(t *testing.T) {
	b := New()
	x := mat(t, b, 2, 1)
	table, err := b.NewTable(kernels.HostTensor{Rows: 2, Cols: 1, Data: f32s(5, 6)})
	if err != nil {
		t.Fatal(err)
	}
	b.Embed(x, table, []uint32{7, 9}, 1)
	if err := b.Sync(); err == nil || !strings.Contains(err.Error(), "token 7") {
		t.Errorf("Sync after a bad token: %v", err)
	}
	if err := b.Sync(); err != nil {
		t.Errorf("second Sync: %v", err)
	}
}
