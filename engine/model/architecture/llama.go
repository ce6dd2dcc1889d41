package architecture

import "github.com/prefillonly/prefillonly/engine/weights"

// llama is Llama 2, 3 and 3.x (Touvron et al. 2023; Grattafiori et al. 2024): grouped-query
// attention, optional biases on all four attention projections.
func llama(c *weights.Config, s *Spec) error {
	s.QKVBias, s.OutBias = c.AttentionBias, c.AttentionBias
	return nil
}
