package kerneltest

import (
	"math"

	"github.com/prefillonly/prefillonly/kernels"
)

// Attention is attention over rows of queries, keys and values, which are normalised and rotated before it.
type Attention struct {
	Heads        kernels.Heads
	Type         kernels.DType // to which queries and keys are rounded
	QNorm, KNorm []float64     // weights of each head, or of all together; nil: they are not normalised
	Eps          float64
	Freq         []float32 // of the rotation; nil: there is none
	RopeScale    float64
	Scale        float64
	Cap          float64 // of scores; 0: none
	Window       int
	BothWays     bool // a row sees those after it, too
}

// Of is rows [from, to) of a sequence: their queries, and what comes of attention.
func (a *Attention) Of(qkv []float64, from, to int) (queries, out []float64) {
	h := a.Heads
	tokens, group := len(qkv)/h.QKVCols(), h.Q/h.KV
	out = make([]float64, (to-from)*h.Q*h.Dim)
	queries = make([]float64, len(out))
	for kv := range h.KV {
		keys, values := make([][]float64, tokens), make([][]float64, tokens)
		for pos := range tokens {
			keys[pos], values[pos] = a.rotatedHead(qkv, pos, h.Q+kv), a.rotatedHead(qkv, pos, h.Q+h.KV+kv)
		}
		for pos := from; pos < to; pos++ {
			first, end := a.visibleRange(pos, tokens)
			for head := kv * group; head < (kv+1)*group; head++ {
				at := ((pos-from)*h.Q + head) * h.Dim
				q := a.rotatedHead(qkv, pos, head)
				copy(queries[at:], q)
				copy(out[at:], a.attendQuery(q, keys[first:end], values[first:end]))
			}
		}
	}
	return queries, out
}

// rotatedHead is one head of a token after normalisation and rotation; place counts queries, keys, values.
func (a *Attention) rotatedHead(qkv []float64, pos, place int) []float64 {
	h := a.Heads
	at := pos*h.QKVCols() + place*h.Dim
	v := qkv[at : at+h.Dim]
	norm, first, heads := a.QNorm, 0, h.Q
	switch {
	case place >= h.Q+h.KV:
		return v
	case place >= h.Q:
		norm, first, heads = a.KNorm, h.Q, h.KV
	}
	switch len(norm) {
	case 0:
	case h.Dim:
		v = rmsNorm(v, norm, a.Eps)
	default: // rounded, as the row is normalised before its heads are turned
		from := pos*h.QKVCols() + first*h.Dim
		all := Rounded(a.Type, rmsNorm(qkv[from:from+heads*h.Dim], norm, a.Eps))
		v = all[(place-first)*h.Dim:][:h.Dim]
	}
	if a.Freq != nil {
		v = rotatePairs(v, a.Freq, a.RopeScale, pos)
	}
	return Rounded(a.Type, v)
}

// visibleRange is the positions [first, end) that the query at pos sees.
func (a *Attention) visibleRange(pos, tokens int) (first, end int) {
	end = pos + 1
	if a.BothWays {
		end = tokens
	}
	if w := a.Window; w > 0 {
		first, end = max(0, pos-w+1), min(end, pos+w)
	}
	return first, end
}

// rotatePairs turns the pairs (i, i+half) of x by pos*freq[i].
func rotatePairs(x []float64, freq []float32, scale float64, pos int) []float64 {
	out := make([]float64, len(x))
	half := len(freq)
	for i, f := range freq {
		sin, cos := math.Sincos(float64(float32(pos) * f))
		out[i] = (x[i]*cos - x[i+half]*sin) * scale
		out[i+half] = (x[i+half]*cos + x[i]*sin) * scale
	}
	return out
}

// attendQuery is softmax(q k^T scale) v, with scores capped.
func (a *Attention) attendQuery(q []float64, keys, values [][]float64) []float64 {
	scores := make([]float64, len(keys))
	top := math.Inf(-1)
	for i := range scores {
		for d, x := range q {
			scores[i] += x * keys[i][d]
		}
		if scores[i] *= a.Scale; a.Cap > 0 {
			scores[i] = a.Cap * math.Tanh(scores[i]/a.Cap)
		}
		top = math.Max(top, scores[i])
	}
	out := make([]float64, len(q))
	total := 0.0
	for i, s := range scores {
		p := math.Exp(s - top)
		total += p
		for d, v := range values[i] {
			out[d] += p * v
		}
	}
	for d := range out {
		out[d] /= total
	}
	return out
}
