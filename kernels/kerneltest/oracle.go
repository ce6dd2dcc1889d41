package kerneltest

import "math"

// matrix is a row-major matrix of the oracle.
type matrix struct {
	rows, cols int
	v          []float64
}

func (m matrix) row(i int) []float64 { return m.v[i*m.cols : (i+1)*m.cols] }

// timesTransposed is m w^T + bias; bias may be nil.
func (m matrix) timesTransposed(w matrix, bias []float64) matrix {
	out := matrix{m.rows, w.rows, make([]float64, m.rows*w.rows)}
	for i := range m.rows {
		for j := range w.rows {
			sum := 0.0
			for k, x := range m.row(i) {
				sum += x * w.row(j)[k]
			}
			if bias != nil {
				sum += bias[j]
			}
			out.v[i*w.rows+j] = sum
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

func (m matrix) normed(w []float64, eps float64) matrix {
	out := matrix{m.rows, m.cols, nil}
	for i := range m.rows {
		out.v = append(out.v, rmsNorm(m.row(i), w, eps)...)
	}
	return out
}

func silu(x float64) float64 { return x / (1 + math.Exp(-x)) }

// rotate turns the pairs (i, i+half) of x by pos*freq[i].
func rotate(x []float64, freq []float32, scale float64, pos int) []float64 {
	out := make([]float64, len(x))
	half := len(freq)
	for i, f := range freq {
		sin, cos := math.Sincos(float64(float32(pos) * f))
		out[i] = (x[i]*cos - x[i+half]*sin) * scale
		out[i+half] = (x[i+half]*cos + x[i]*sin) * scale
	}
	return out
}

// columns are the listed ones of every row, row after row.
func (m matrix) columns(ids []uint32) []float64 {
	var picked []float64
	for i := range m.rows {
		for _, id := range ids {
			picked = append(picked, m.row(i)[id])
		}
	}
	return picked
}

// attend is softmax(q k^T scale) v over keys [from, to).
func attend(q []float64, keys, values [][]float64, from, to int, scale float64) []float64 {
	scores := make([]float64, to-from)
	top := math.Inf(-1)
	for i := range scores {
		for d, x := range q {
			scores[i] += x * keys[from+i][d]
		}
		scores[i] *= scale
		top = math.Max(top, scores[i])
	}
	out := make([]float64, len(q))
	total := 0.0
	for i, s := range scores {
		p := math.Exp(s - top)
		total += p
		for d, v := range values[from+i] {
			out[d] += p * v
		}
	}
	for d := range out {
		out[d] /= total
	}
	return out
}
