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
	if x.Run > 0 {
		kind = fmt.Sprintf(" rows from %d on, %d every %d", x.From, x.Run, x.Step)
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
	if x.Run > 0 {
		var err error
		if t, err = orderRows(t, t.Rows, listRuns(x)); err != nil {
			return t, err
		}
		x.From = 0
	}
	row := int64(t.Cols) * t.Type.Size()
	t.Data, t.Rows = t.Data[int64(x.From)*row:int64(x.From+x.Rows)*row], x.Rows
	if t.Scale != nil {
		t.Scale = t.Scale[x.From : x.From+x.Rows]
	}
	if t.Groups != nil {
		t.Groups = t.Groups.Slice(t.Cols, x.From, x.From+x.Rows)
	}
	if order := m.spec.HeadOrder(); x.Turned && order != nil {
		return orderRows(t, len(order), order)
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

// listRuns lists a matrix's rows of a tensor that has them in runs.
func listRuns(x architecture.Matrix) []int {
	rows := make([]int, x.Rows)
	for i := range rows {
		rows[i] = x.From + i/x.Run*x.Step + i%x.Run
	}
	return rows
}

// orderRows copies those of each so many rows that an order lists.
func orderRows(t kernels.HostTensor, each int, order []int) (kernels.HostTensor, error) {
	row, old := int64(t.Cols)*t.Type.Size(), make([]byte, len(t.Data))
	if err := t.ReadPart(old, t.Data); err != nil {
		return t, err
	}
	var ordered []byte
	var scale []float32
	for first := 0; first < t.Rows; first += each {
		for _, i := range order {
			ordered = append(ordered, old[int64(first+i)*row:int64(first+i+1)*row]...)
			if t.Scale != nil {
				scale = append(scale, t.Scale[first+i])
			}
		}
	}
	t.Rows = t.Rows / each * len(order)
	t.Data, t.File, t.Scale, t.Groups = ordered, nil, scale, nil
	return t, nil
}
