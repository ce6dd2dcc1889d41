package ref

import (
	"math"

	"github.com/prefillonly/prefillonly/kernels"
)

var _ kernels.Encoders = (*Backend)(nil)

// LayerNorm sets dst to n(x).
func (b *Backend) LayerNorm(dst, x kernels.Mat, n kernels.Norm) {
	for i, r := range normaliseRows(x, n) {
		copy(matrixRow(dst, i), r)
	}
}

// LayerNormLinear sets dst = n(x) l^T + bias.
func (b *Backend) LayerNormLinear(dst, x kernels.Mat, n kernels.Norm, l kernels.Linear) {
	b.multiplyLinear(rowsOf(dst), normaliseRows(x, n), l.(*linear), false)
}

// LayerNormMLP sets x += down(act(up(n(x)))), or act(g) * u in between.
func (b *Backend) LayerNormMLP(x kernels.Mat, n kernels.Norm, act kernels.Activation, up, down kernels.Linear) {
	inner := newRows(x.Rows, up.Out())
	b.multiplyLinear(inner, normaliseRows(x, n), up.(*linear), false)
	width := down.In()
	runParallel(x.Rows, func(i int) {
		r := inner[i]
		for j := range width {
			r[j] = activate(r[j], act)
		}
		if up.Out() == 2*width { // the rows of up are below those of the gate
			for j := range width {
				r[j] *= r[width+j]
			}
		}
		inner[i] = r[:width]
	})
	b.multiplyLinear(rowsOf(x), inner, down.(*linear), true)
}

// AttentionBothWays is softmax attention over all positions or, to both sides, those in the window.
func (b *Backend) AttentionBothWays(dst, qkv kernels.Mat, spec kernels.AttentionSpec, blockTokens int, segs []kernels.Segment) {
	b.computeAttention(dst, qkv, spec, blockTokens, segs, func(s kernels.Segment, pos int) int {
		if spec.Window > 0 {
			return min(s.Len, pos+spec.Window)
		}
		return s.Len
	})
}

func activate(x float32, act kernels.Activation) float32 {
	v := float64(x)
	switch act {
	case kernels.SiLU:
		return float32(v / (1 + math.Exp(-v)))
	case kernels.GELUTanh:
		return float32(v / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v))))
	}
	return float32(v / 2 * math.Erfc(-v/math.Sqrt2))
}

// normaliseRows returns n(x).
func normaliseRows(x kernels.Mat, n kernels.Norm) [][]float32 {
	out := newRows(x.Rows, x.Cols)
	runParallel(x.Rows, func(i int) {
		if copy(out[i], matrixRow(x, i)); n.Weight != nil {
			layerNorm(out[i], n)
		}
	})
	return out
}

func layerNorm(x []float32, n kernels.Norm) {
	sum, squares := 0.0, 0.0
	for _, v := range x {
		sum += float64(v)
	}
	mean := sum / float64(len(x))
	for _, v := range x {
		off := float64(v) - mean
		squares += float64(off * off)
	}
	scale := 1 / math.Sqrt(squares/float64(len(x))+float64(n.Eps))
	for i, v := range x {
		x[i] = float32(float32((float64(v)-mean)*scale) * n.Weight.(*vector).weight[i])
		if n.Bias != nil {
			x[i] += n.Bias.(*vector).weight[i]
		}
	}
}
