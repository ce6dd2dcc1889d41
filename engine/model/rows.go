package model

import (
	"fmt"

	"github.com/prefillonly/prefillonly/engine/model/architecture"
	"github.com/prefillonly/prefillonly/kernels"
)

// rowsKind ends the kinds of parts of which a matrix is not a whole tensor as it is.
func (m *Model) rowsKind(x architecture.Matrix) (kind string) {
	if x.Rows != x.Of {
		kind = fmt.Sprintf(" rows %d to %d", x.From, x.From+x.Rows)
	}
	if order := m.spec.HeadOrder(); x.Turned && order != nil {
		kind += fmt.Sprintf(" in order %v", order)
	}
	return kind
}

// matrixRows is a matrix out of the tensor that has it: its rows, those of heads in the order in which they are turned.
func (m *Model) matrixRows(x architecture.Matrix, t kernels.HostTensor) (kernels.HostTensor, error) {
	if t.Data == nil { // which the device makes up
		t.Rows = x.Rows
		return t, nil
	}
	if err := t.Check(); err != nil {
		return t, err
	}
	row := int64(t.Cols) * t.Type.Size()
	t.Data, t.Rows = t.Data[int64(x.From)*row:int64(x.From+x.Rows)*row], x.Rows
	if t.Scale != nil {
		t.Scale = t.Scale[x.From : x.From+x.Rows]
	}
	if order := m.spec.HeadOrder(); x.Turned && order != nil {
		return orderRows(t, order)
	}
	return t, nil
}

// biasRows is matrixRows of its bias.
func (m *Model) biasRows(x architecture.Matrix, t kernels.HostTensor) (kernels.HostTensor, error) {
	t.Rows, t.Cols = t.Cols, 1
	t, err := m.matrixRows(x, t)
	t.Rows, t.Cols = 1, t.Rows
	return t, err
}

// orderRows copies rows so that those of each head come in an order.
func orderRows(t kernels.HostTensor, order []int) (kernels.HostTensor, error) {
	row, old := int64(t.Cols)*t.Type.Size(), make([]byte, len(t.Data))
	if err := t.ReadPart(old, t.Data); err != nil {
		return t, err
	}
	ordered, scale := make([]byte, 0, len(old)), make([]float32, 0, len(t.Scale))
	for head := 0; head < t.Rows; head += len(order) {
		for _, i := range order {
			ordered = append(ordered, old[int64(head+i)*row:int64(head+i+1)*row]...)
			if t.Scale != nil {
				scale = append(scale, t.Scale[head+i])
			}
		}
	}
	t.Data, t.File = ordered, nil
	if t.Scale != nil {
		t.Scale = scale
	}
	return t, nil
}
