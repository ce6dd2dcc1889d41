package weights

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// packedParts is a matrix [2, 8] in pack-quantized: two words a row.
func packedParts() []Part {
	words := []uint32{0xff807f00, 0x81c03385, 0x84838281, 0x78797a7b} // pack_to_int32 of codes
	raw := func(v any) func(io.Writer) error {
		return func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, v) }
	}
	return []Part{
		{"m.weight_packed", "I32", []int{2, 2}, raw(words)},
		{"m.weight_scale", "F32", []int{2, 1}, raw([]float32{0.5, 2})},
		{"m.weight_shape", "I64", []int{2}, raw([]int64{2, 8})},
	}
}

var packedCodes = []int8{-128, -1, 0, 127, 5, -77, 64, 1, 1, 2, 3, 4, -5, -6, -7, -8}

func writeParts(t *testing.T, parts []Part) *Checkpoint {
	t.Helper()
	dir := t.TempDir()
	var text bytes.Buffer
	if err := Write(&text, parts); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, singleFile), text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return open(t, dir)
}

// TestPacked: codes are what compressed-tensors packed, and nothing of theirs is left over.
func TestPacked(t *testing.T) {
	c := writeParts(t, packedParts())
	packed, err := c.Tensor("m.weight", 2, 8)
	if err != nil {
		t.Fatal(err)
	}
	var stage Stage
	defer stage.Free()
	staged, err := stage.Read(packed)
	if err != nil {
		t.Fatal(err)
	}
	var codes []int8
	for _, b := range staged[0].Data {
		codes = append(codes, int8(b))
	}
	if packed.Type != kernels.I8 || !slices.Equal(codes, packedCodes) || !slices.Equal(packed.Scale, []float32{0.5, 2}) {
		t.Errorf("%s %v of %v", packed.Type, codes, packed.Scale)
	}
	if left := c.Untaken(); len(left) != 0 {
		t.Errorf("untaken are %v", left)
	}
	parts := packedParts()
	parts[1].Data = func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, []float32{0.5, 3}) }
	if other := writeParts(t, parts); other.ID("m.weight") == c.ID("m.weight") {
		t.Error("other files have the same ID")
	}
	c.Ahead("m.weight")
	c.Release(packed)
}

func TestPackedRefuses(t *testing.T) {
	for want, edit := range map[string]func(p []Part) []Part{
		`"m.weight_packed" is U32, want I32`:            func(p []Part) []Part { p[0].Type = "U32"; return p },
		`"m.weight_packed" has shape [1 4], want [2 2]`: func(p []Part) []Part { p[0].Shape = []int{1, 4}; return p },
		`missing tensor "m.weight_scale"`:               func(p []Part) []Part { return []Part{p[0], p[2]} },
		`missing tensor "m.weight_shape"`:               func(p []Part) []Part { return p[:2] },
		`"m.weight_shape" is I64 [1 2], want I64 [2]`:   func(p []Part) []Part { p[2].Shape = []int{1, 2}; return p },
		`"m.weight_shape" is [2 7], want [2 8] by config.json`: func(p []Part) []Part {
			p[2].Data = func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, []int64{2, 7}) }
			return p
		},
	} {
		if _, err := writeParts(t, edit(packedParts())).Tensor("m.weight", 2, 8); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to hold %q", err, want)
		}
	}
	if _, err := writeParts(t, packedParts()).Tensor("m.weight", 16); err == nil || !strings.Contains(err.Error(), "packs shape [16], want a matrix") {
		t.Errorf("a vector: %v", err)
	}
}

// TestPackedFilledUp: what fills rows up to whole words is no code.
func TestPackedFilledUp(t *testing.T) {
	for cols, want := range map[int][]int8{7: {-128, -1, 0, 127, 5, -77, 64, 1, 2, 3, 4, -5, -6, -7}, 5: {-128, -1, 0, 127, 5, 1, 2, 3, 4, -5}} {
		parts := packedParts()
		parts[2].Data = func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, []int64{2, int64(cols)}) }
		c := writeParts(t, parts)
		packed, err := c.Tensor("m.weight", 2, cols)
		if err != nil {
			t.Fatal(err)
		}
		c.Release(packed) // it is no view that could be dropped
		var codes []int8
		for _, b := range packed.Data {
			codes = append(codes, int8(b))
		}
		if err := packed.Check(); err != nil || packed.File != nil || !slices.Equal(codes, want) {
			t.Errorf("%d columns: %v (%v), want %v", cols, codes, err, want)
		}
	}
}
