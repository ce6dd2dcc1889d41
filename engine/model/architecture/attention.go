package architecture

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

// Attentions are the kinds of attention that a model's layers have, each once. Queries lie in rows of
// QKVCols, outputs in rows of Q*Dim.
func Attentions(config weights.Config) ([]kernels.AttentionSpec, error) {
	s, err := New(&config)
	if err != nil {
		return nil, err
	}
	var kinds []kernels.AttentionSpec
	for _, window := range s.Windows {
		if kind := s.Attention(window); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds, nil
}

// ScaleLogits makes logits of what the LM head gives.
func (s *Spec) ScaleLogits(row []float32) {
	for i := range row {
		switch {
		case s.LogitCap > 0:
			row[i] = s.LogitCap * float32(math.Tanh(float64(row[i]*s.LogitScale/s.LogitCap)))
		case s.LogitScale == 1:
			return
		default:
			row[i] *= s.LogitScale
		}
	}
}

// Attention is that of a layer with such a window.
func (s *Spec) Attention(window int) kernels.AttentionSpec {
	scale := s.AttnScale
	if scale == 0 {
		scale = float32(1 / math.Sqrt(float64(s.Heads.Dim)))
	}
	return kernels.AttentionSpec{Heads: s.Heads, Scale: scale, Window: window, Cap: s.ScoreCap}
}
