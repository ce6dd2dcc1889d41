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

// TestMatrixRowsOfHeads: of a tensor that has the query, key and value of a head side by side, a matrix is one of these of each head.
func TestMatrixRowsOfHeads(t *testing.T) {
	m := &Model{spec: architecture.Spec{Heads: kernels.Heads{Dim: 2}}}
	tensor := kernels.HostTensor{Type: kernels.BF16, Rows: 12, Cols: 1, Data: make([]byte, 24)}
	for i := range 12 {
		tensor.Data[2*i] = byte(i)
	}
	for from, want := range map[int][]byte{0: {0, 1, 6, 7}, 2: {2, 3, 8, 9}, 4: {4, 5, 10, 11}} {
		x := architecture.Matrix{Rows: 4, In: 1, From: from, Of: 12, Run: 2, Step: 6}
		got, err := m.matrixRows(x, tensor)
		if err != nil || got.Rows != 4 || len(got.Data) != 8 {
			t.Fatalf("from %d: %d rows of %d bytes, %v", from, got.Rows, len(got.Data), err)
		}
		for i, b := range want {
			if got.Data[2*i] != b {
				t.Errorf("from %d: row %d is %d, want %d", from, i, got.Data[2*i], b)
			}
		}
		bias, err := m.biasRows(x, kernels.HostTensor{Type: kernels.BF16, Rows: 1, Cols: 12, Data: tensor.Data})
		if err != nil || bias.Rows != 1 || bias.Cols != 4 || bias.Data[4] != want[2] {
			t.Errorf("from %d: bias %+v, %v", from, bias, err)
		}
	}
}
