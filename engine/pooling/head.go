package pooling

import (
	"fmt"

	"github.com/prefillonly/prefillonly/kernels"
)

// Matrix is a small matrix in the host's memory. It takes none of a device's.
type Matrix struct {
	Rows, Cols int
	Data       []float32 // row after row
}

// NewMatrix converts a checkpoint's tensor; a vector has one row.
func NewMatrix(t kernels.HostTensor) (*Matrix, error) {
	if err := t.CheckUnquantized(); err != nil {
		return nil, err
	}
	raw := make([]byte, len(t.Data))
	if err := t.ReadPart(raw, t.Data); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	m := &Matrix{Rows: t.Rows, Cols: t.Cols, Data: make([]float32, t.Rows*t.Cols)}
	kernels.Expand(m.Data, t.Type, raw)
	return m, nil
}

// Bytes implements kernels.Held: of the device's memory.
func (*Matrix) Bytes() int64 { return 0 }

// Free implements kernels.Held.
func (m *Matrix) Free() { m.Data = nil }

// Layer is a linear layer of a head, and what follows it.
type Layer struct {
	Weight *Matrix
	Bias   *Matrix // one row; nil for none
	After  func(float32) float32
}

// Head is what a checkpoint says of a pooled vector: its logits.
type Head []Layer

// Apply computes the logits of a vector; of several one after the other, those of each.
func (h Head) Apply(v []float32) []float32 {
	width := h[0].Weight.Cols
	var out []float32
	for ; len(v) >= width; v = v[width:] {
		x := v[:width]
		for i := range h {
			x = h[i].apply(x)
		}
		out = append(out, x...)
	}
	return out
}

func (l *Layer) apply(x []float32) []float32 {
	out := make([]float32, l.Weight.Rows)
	for i := range out {
		sum := dot(l.Weight.Data[i*len(x):(i+1)*len(x)], x)
		if l.Bias != nil {
			sum += float64(l.Bias.Data[i])
		}
		if out[i] = float32(sum); l.After != nil {
			out[i] = l.After(out[i])
		}
	}
	return out
}

// dot is in float64, as four sums that a processor can compute side by side.
func dot(a, b []float32) float64 {
	var s [4]float64
	for ; len(a) >= 4 && len(b) >= 4; a, b = a[4:], b[4:] {
		s[0] += float64(a[0]) * float64(b[0])
		s[1] += float64(a[1]) * float64(b[1])
		s[2] += float64(a[2]) * float64(b[2])
		s[3] += float64(a[3]) * float64(b[3])
	}
	for i, x := range a {
		s[0] += float64(x) * float64(b[i])
	}
	return s[0] + s[1] + s[2] + s[3]
}

// ReLU is max(0, x).
func ReLU(x float32) float32 { return max(0, x) }
