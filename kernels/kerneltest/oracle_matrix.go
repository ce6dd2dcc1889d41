// The oracle computes operations of language models slowly, by their definitions, in float64 on the host, and converts numbers to the
// formats in which kernels have them.

package kerneltest

import (
	"math"

	"github.com/prefillonly/prefillonly/kernels"
)

// Matrix is row-major.
type Matrix struct {
	Rows, Cols int
	V          []float64
}

// NewMatrix is the matrix of these elements.
func NewMatrix(rows, cols int, v []float64) Matrix { return Matrix{rows, cols, v} }

// Row is a row's elements themselves.
func (m Matrix) Row(i int) []float64 { return m.V[i*m.Cols : (i+1)*m.Cols] }

// Pick copies the given rows.
func (m Matrix) Pick(rows []int) []float64 {
	var v []float64
	for _, i := range rows {
		v = append(v, m.Row(i)...)
	}
	return v
}

// Columns are the listed ones of every row, row after row.
func (m Matrix) Columns(ids []uint32) []float64 {
	var picked []float64
	for i := range m.Rows {
		for _, id := range ids {
			picked = append(picked, m.Row(i)[id])
		}
	}
	return picked
}

// TimesTransposed is m w^T + bias; bias may be nil.
func (m Matrix) TimesTransposed(w Matrix, bias []float64) Matrix {
	out := Matrix{m.Rows, w.Rows, make([]float64, m.Rows*w.Rows)}
	for i := range m.Rows {
		for j := range w.Rows {
			sum := 0.0
			for k, x := range m.Row(i) {
				sum += x * w.Row(j)[k]
			}
			if bias != nil {
				sum += bias[j]
			}
			out.V[i*w.Rows+j] = sum
		}
	}
	return out
}

// rmsNorm normalises x by the root of its mean square and multiplies it by w.
func rmsNorm(x, w []float64, eps float64) []float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	scale := 1 / math.Sqrt(sum/float64(len(x))+eps)
	out := make([]float64, len(x))
	for i := range x {
		out[i] = x[i] * scale * w[i]
	}
	return out
}

// RMSNorm normalises rows by the root of their mean square and multiplies them by w.
func (m Matrix) RMSNorm(w []float64, eps float64) Matrix {
	out := Matrix{m.Rows, m.Cols, nil}
	for i := range m.Rows {
		out.V = append(out.V, rmsNorm(m.Row(i), w, eps)...)
	}
	return out
}

// LayerNorm takes their mean from rows, normalises them by their deviation, multiplies them by w and adds bias. Without w it is m,
// and bias may be nil.
func (m Matrix) LayerNorm(w, bias []float64, eps float64) Matrix {
	if w == nil {
		return m
	}
	out := Matrix{m.Rows, m.Cols, make([]float64, 0, len(m.V))}
	for i := range m.Rows {
		mean, variance := 0.0, 0.0
		for _, v := range m.Row(i) {
			mean += v / float64(m.Cols)
		}
		for _, v := range m.Row(i) {
			variance += (v - mean) * (v - mean) / float64(m.Cols)
		}
		for j, v := range m.Row(i) {
			y := (v - mean) / math.Sqrt(variance+eps) * w[j]
			if bias != nil {
				y += bias[j]
			}
			out.V = append(out.V, y)
		}
	}
	return out
}

// Gated is act(gate) * up.
func Gated(gate, up Matrix, act kernels.Activation) Matrix {
	out := Matrix{gate.Rows, gate.Cols, make([]float64, len(gate.V))}
	for i, x := range gate.V {
		out.V[i] = Activate(x, act) * up.V[i]
	}
	return out
}

// Activate is act(x).
func Activate(x float64, act kernels.Activation) float64 {
	switch act {
	case kernels.SiLU:
		return x / (1 + math.Exp(-x))
	case kernels.GELUTanh:
		return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}
	return x / 2 * (1 + math.Erf(x/math.Sqrt2))
}
