package ref

import (
	"math"

	"github.com/prefillonly/prefillonly/kernels"
)

var _ kernels.Encoders = (*Backend)(nil)

// LayerNorm sets dst to n(x).
func (b *Backend) LayerNorm(dst, x kernels.Mat, n kernels.Norm) {
	for i, r := range normRows(x, n) {
		copy(matrixRow(dst, i), r)
	}
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
