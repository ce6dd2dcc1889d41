package architecture

import (
	"errors"
	"math"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

// gemma is Gemma's first models (Gemma Team 2024): GELU in place of SiLU, norms' weights counted from one, and embeddings times
// the root of their length.
func gemma(c *weights.Config, s *Spec) error {
	var more struct {
		Tied     *bool `json:"tie_word_embeddings"`
		BothWays bool  `json:"use_bidirectional_attention"`
	}
	if err := c.ReadKeys(&more); err != nil {
		return err
	}
	if more.BothWays {
		return errors.New("use_bidirectional_attention is true: decoders see what is before a token alone")
	}
	s.QKVBias, s.OutBias = c.AttentionBias, c.AttentionBias
	s.Tied = more.Tied == nil || *more.Tied
	if c.HeadDim == nil {
		s.Heads.Dim = 256 // transformers' default
	}
	if c.HiddenAct == "" || s.Act == kernels.GELU {
		s.Act = kernels.GELUTanh // which first configurations called gelu
	}
	s.NormOffset = 1
	s.EmbedScale = float32(math.Sqrt(float64(s.Hidden)))
	return nil
}
