package weights

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

const projection = "model.layers.0.self_attn.q_proj.weight"

func TestFP8RoundTrip(t *testing.T) {
	dir := t.TempDir()
	want := randomTensor(t, kernels.F8E4M3, projection, 96, 33)
	if err := want.Check(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, singleFile, want, randomTensor(t, kernels.F8E4M3, "model.norm.weight", 33))
	c := open(t, dir)
	got, err := c.Tensor(projection, 96, 33)
	if err != nil {
		t.Fatal(err)
	}
	if got.Type != want.Type || !bytes.Equal(got.Data, want.Data) || !slices.Equal(got.Scale, want.Scale) {
		t.Error("the tensor came back differently")
	}
	if norm, err := c.Tensor("model.norm.weight", 33); err != nil || norm.Type != kernels.BF16 {
		t.Errorf("the norm is %s (%v), want bfloat16", norm.Type, err)
	}
	if left := c.Untaken(); len(left) != 0 {
		t.Errorf("untaken are %v: a weight takes its scales with it", left)
	}
}

// TestRandomFP8 holds the codes to the values they stand for, which tools/golden/golden_quantized.py quantises too.
func TestRandomFP8(t *testing.T) {
	got := randomTensor(t, kernels.F8E4M3, projection, 96, 33)
	want := make([]float32, 96*33)
	kernels.Expand(want, kernels.F32, randomTensor(t, kernels.F32, projection, 96, 33).Data)
	for i, v := range want {
		scale := got.Scale[i/33]
		if bits := math.Float32bits(scale); bits&0xffff != 0 {
			t.Fatalf("scale %v is not a bfloat16", scale)
		}
		value := kernels.E4M3(got.Data[i]).Float32() * scale
		if off := math.Abs(float64(value - v)); off > math.Abs(float64(v))/16+float64(scale)/1024 {
			t.Fatalf("element %d is %v for %v", i, value, v)
		}
	}
}

// TestScaleShapes: a column, a vector, a scalar, a vector of one; and each type.
func TestScaleShapes(t *testing.T) {
	two := func(typ kernels.DType, a, b float32) []byte {
		raw := make([]byte, 2*typ.Size())
		Put(typ, raw, 0, a)
		Put(typ, raw, 1, b)
		return raw
	}
	for _, c := range []struct {
		dtype, shape string
		raw          []byte
		want         []float32
		err          string
	}{
		{"BF16", "[2,1]", two(kernels.BF16, 0.5, 3), []float32{0.5, 3}, ""},
		{"F16", "[2]", two(kernels.F16, 0.5, 3), []float32{0.5, 3}, ""},
		{"F32", "[]", two(kernels.F32, 0.25, 0)[:4], []float32{0.25, 0.25}, ""},
		{"BF16", "[1]", two(kernels.BF16, 8, 0)[:2], []float32{8, 8}, ""},
		{"BF16", "[1,2]", two(kernels.BF16, 8, 0), nil, `"a_scale" has shape [1 2], want [2 1]`},
		{"F32", "[1,2]", two(kernels.F32, 8, 0), nil, `"a_scale" has shape [1 2], want [2 1]`},
		{"F8_E8M0", "[2,1]", []byte{1, 2}, nil, `"a_scale" is F8_E8M0, want BF16, F16 or F32`},
		{"F32", "[2]", two(kernels.F32, 1, float32(math.NaN())), nil, `"a_scale": element 1 is NaN`},
		{"F32", "[2]", two(kernels.F32, float32(math.Inf(1)), 1), nil, `"a_scale": element 0 is +Inf`},
	} {
		dir := t.TempDir()
		header := fmt.Sprintf(`{"a":{"dtype":"F8_E4M3","shape":[2,3],"data_offsets":[0,6]},"a_scale":{"dtype":%q,"shape":%s,"data_offsets":[6,%d]}}`, c.dtype, c.shape, 6+len(c.raw))
		text := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
		writeText(t, dir, singleFile, string(text)+header+"123456"+string(c.raw))
		got, err := open(t, dir).Tensor("a", 2, 3)
		if c.err == "" && (err != nil || !slices.Equal(got.Scale, c.want)) {
			t.Errorf("%s %s: scales %v (%v), want %v", c.dtype, c.shape, got.Scale, err, c.want)
		}
		if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s %s: error %v, want it to hold %q", c.dtype, c.shape, err, c.err)
		}
	}
}

func TestScaleMissing(t *testing.T) {
	dir := t.TempDir()
	header := `{"a":{"dtype":"F8_E4M3","shape":[2,2],"data_offsets":[0,4]}}`
	text := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	writeText(t, dir, singleFile, string(text)+header+"1234")
	if _, err := open(t, dir).Tensor("a", 2, 2); err == nil || !strings.Contains(err.Error(), `missing tensor "a_scale", the scales of a quantised weight`) {
		t.Errorf("error %v", err)
	}
}
