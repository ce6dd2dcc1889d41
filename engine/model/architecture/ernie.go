package architecture

import (
	"errors"

	"github.com/prefillonly/prefillonly/engine/weights"
)

// ernie45 is ERNIE 4.5's dense models (Baidu 2025): Llama with pairs of dimensions that are turned beside each other.
func ernie45(c *weights.Config, s *Spec) error {
	var more struct {
		Bias bool  `json:"use_bias"`
		Tied *bool `json:"tie_word_embeddings"`
	}
	if err := c.ReadKeys(&more); err != nil {
		return err
	}
	if more.Bias {
		return errors.New("use_bias is true: the MLP's biases are computed by no backend")
	}
	s.Tied = more.Tied == nil || *more.Tied // transformers' defaults, here and below
	s.Interleaved = true
	s.theta = 500_000
	if c.HeadDim == nil {
		s.Heads.Dim = 128
	}
	if c.RMSNormEps == nil {
		s.Eps = 1e-5
	}
	return nil
}
