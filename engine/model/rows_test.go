package model

import (
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/engine/model/architecture"
	"github.com/prefillonly/prefillonly/kernels"
)

// TestMatrixRows: rows of a fused tensor come in the order of their heads, with the scales of codes and biases.
func TestMatrixRows(t *testing.T) {
	m := &Model{spec: architecture.Spec{Interleaved: true, Heads: kernels.Heads{Dim: 4}, Rotations: []architecture.Rotation{{InvFreq: []float32{1, 0.5}}}}}
	x := architecture.Matrix{Rows: 8, In: 2, From: 2, Of: 12, Turned: true}
	tensor := kernels.HostTensor{Type: kernels.I8, Rows: 12, Cols: 2, Data: make([]byte, 24), Scale: make([]float32, 12)}
	for i := range 12 {
		tensor.Data[2*i], tensor.Data[2*i+1], tensor.Scale[i] = byte(i), byte(100+i), float32(i)
	}
	got, err := m.matrixRows(x, tensor)
	if err != nil {
		t.Fatal(err)
	}
	if want := []float32{2, 4, 3, 5, 6, 8, 7, 9}; got.Rows != 8 || !slices.Equal(got.Scale, want) {
		t.Errorf("%d rows of scales %v, want %v", got.Rows, got.Scale, want)
	}
	for i, s := range got.Scale {
		if got.Data[2*i] != byte(s) || got.Data[2*i+1] != byte(100+s) {
			t.Errorf("row %d is %v of scale %g", i, got.Data[2*i:2*i+2], s)
		}
	}
	bias := kernels.HostTensor{Type: kernels.BF16, Rows: 1, Cols: 12, Data: make([]byte, 24)}
	for i := range 12 {
		bias.Data[2*i] = byte(i)
	}
	if got, err = m.biasRows(x, bias); err != nil || got.Rows != 1 || got.Cols != 8 || got.Data[2] != 4 || got.Data[15] != 0 || got.Data[14] != 9 {
		t.Errorf("the bias is %+v, %v", got, err)
	}
}
