package architecture

import (
	"errors"
	"fmt"

	"github.com/prefillonly/prefillonly/engine/weights"
)

// cohere is Command R's first models (Cohere 2024): one centred norm before attention and MLP, which are in parallel, dimensions that are turned
// in pairs beside each other, and a factor of the logits.
func cohere(c *weights.Config, s *Spec) error {
	more := struct {
		LogitScale float64 `json:"logit_scale"`
		QKNorm     bool    `json:"use_qk_norm"`
		Tied       *bool   `json:"tie_word_embeddings"`
	}{LogitScale: 0.0625} // transformers' defaults, here and below
	if err := c.ReadKeys(&more); err != nil {
		return err
	}
	switch {
	case more.QKNorm:
		return errors.New("use_qk_norm is true: centred norms of queries and keys are computed by no backend")
	case !(more.LogitScale >= 1e-5 && more.LogitScale <= 1e5):
		return fmt.Errorf("logit_scale is %g, want a number from 1e-05 to 1e+05", more.LogitScale)
	}
	s.QKVBias, s.OutBias = c.AttentionBias, c.AttentionBias
	s.Tied = more.Tied == nil || *more.Tied
	s.LogitScale = float32(more.LogitScale)
	s.Interleaved, s.Parallel = true, true
	s.Norms = Norms{Attention: "input_layernorm", MLP: "input_layernorm"}
	s.centreNorms(c.LayerNormEps)
	return nil
}

// cohere2 is Command R7B and A (Cohere 2024): cohere with a sliding window in three layers of four, of which the others see no positions.
func cohere2(c *weights.Config, s *Spec) error {
	more := struct {
		Pattern int `json:"sliding_window_pattern"`
	}{4}
	err := c.ReadKeys(&more)
	if err == nil {
		err = cohere(c, s)
	}
	switch {
	case err != nil:
		return err
	case more.Pattern < 1:
		return fmt.Errorf("sliding_window_pattern is %d, want a positive number", more.Pattern)
	case c.SlidingWindow.Null:
		return errors.New("sliding_window is null, want the window of layers that have one")
	}
	if err := windowsInTurns(c, s, more.Pattern, slidingWindow(c)); err != nil {
		return err
	}
	s.unturned = make([]bool, s.Layers)
	for i, slides := range s.slides {
		s.unturned[i] = !slides
	}
	return nil
}

// centreNorms makes the layers' norms centred, of this epsilon.
func (s *Spec) centreNorms(eps *float64) {
	s.Centred, s.Eps = true, 1e-5 // transformers' default
	if eps != nil {
		s.Eps = float32(*eps)
	}
}
