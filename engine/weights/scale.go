package weights

import (
	"fmt"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/kernels"
)

// scaleSuffix follows the name of a quantised weight in the name of its scales.
const scaleSuffix = "_scale"

// findScales checks by the header that there are scales of a matrix of so many rows: [rows, 1] or [rows], or
// one for all rows.
func (c *Checkpoint) findScales(name string, rows int) error {
	t, ok := c.tensors[name]
	if !ok {
		return fmt.Errorf("checkpoint %s: missing tensor %q, the scales of a quantised weight", c.dir, name)
	}
	if typ, ok := computable[t.dtype]; !ok || typ.Scaled() {
		return fmt.Errorf("%s: tensor %q is %s, want BF16, F16 or F32", t.file.Path, name, t.dtype)
	}
	vector := len(t.shape) == 1 || len(t.shape) == 2 && t.shape[1] == 1
	if count := elementCount(t.shape); count != 1 && !(vector && count == rows) {
		return fmt.Errorf("%s: tensor %q has shape %v, want [%d 1] (one scale for each row) or one scale", t.file.Path, name, t.shape, rows)
	}
	c.taken[name] = true
	return nil
}

// readScales reads what findScales has found.
func (c *Checkpoint) readScales(name string, rows int) ([]float32, error) {
	t := c.tensors[name]
	if err := t.file.Use(); err != nil {
		return nil, err
	}
	count := elementCount(t.shape)
	values := make([]float32, count)
	raw := make([]byte, t.end-t.begin)
	if err := t.file.ReadPart(raw, t.file.tensorData(t.entry)); err != nil {
		return nil, err
	}
	kernels.Expand(values, computable[t.dtype], raw)
	for i, v := range values {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("%s: tensor %q: element %d is %v, want a finite number", t.file.Path, name, i, v)
		}
	}
	if count == 1 {
		values = slices.Repeat(values, rows)
	}
	return values, nil
}

// scaleTensor is t's scales as a tensor of the file.
func scaleTensor(t kernels.HostTensor) kernels.HostTensor {
	data := make([]byte, 4*len(t.Scale))
	for i, v := range t.Scale {
		Put(kernels.F32, data, i, v)
	}
	return kernels.HostTensor{Name: t.Name + scaleSuffix, Type: kernels.F32, Rows: len(t.Scale), Cols: 1, Data: data}
}

// QuantizeI8 sets codes to those of a row over a scale that makes its largest magnitude 127.5, rounded to the bfloat16 that is
// stored: its upper half is returned. Codes are of that scale.
func QuantizeI8(codes []byte, row []float32) (scale uint16) {
	if scale = toBF16(largestMagnitude(row) / 127.5); scale == 0 {
		scale = toBF16(0x1p-23) // of zeros: any will do but zero
	}
	unit := math.Float32frombits(uint32(scale) << 16)
	for i, v := range row {
		codes[i] = byte(int8(min(127, max(-128, math.RoundToEven(float64(v/unit))))))
	}
	return scale
}

// largestMagnitude is the largest magnitude.
func largestMagnitude(row []float32) (top float32) {
	for _, v := range row {
		top = max(top, float32(math.Abs(float64(v))))
	}
	return top
}

// AddOffset is a tensor in float32 with a number added to each element; without one it is the tensor as it is.
func AddOffset(t kernels.HostTensor, offset float32) (kernels.HostTensor, error) {
	if offset == 0 {
		return t, nil
	}
	if err := t.CheckUnquantized(); err != nil {
		return t, err
	}
	raw := make([]byte, len(t.Data))
	if err := t.ReadPart(raw, t.Data); err != nil {
		return t, err
	}
	values := make([]float32, t.Rows*t.Cols)
	kernels.Expand(values, t.Type, raw)
	data := make([]byte, 4*len(values))
	for i, v := range values {
		Put(kernels.F32, data, i, v+offset)
	}
	return kernels.HostTensor{Name: t.Name, Type: kernels.F32, Rows: t.Rows, Cols: t.Cols, Data: data}, nil
}
