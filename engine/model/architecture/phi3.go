package architecture

import "github.com/prefillonly/prefillonly/engine/weights"

// phi3 is Phi 3, 3.5 and 4 (Abdin et al. 2024): Llama with fused projections, of which the small ones turn a part of a head's dimensions, by
// frequencies that depend on how long sequences may be.
func phi3(c *weights.Config, s *Spec) error {
	s.FusedQKV, s.FusedGateUp, s.turnedPart = true, true, 1
	if c.RMSNormEps == nil {
		s.Eps = 1e-5 // transformers' default
	}
	if c.OriginalMaxPositionEmbeddings == 0 {
		c.OriginalMaxPositionEmbeddings = 4096 // transformers' default
	}
	if c.SlidingWindow.Set {
		return mistral(c, s)
	}
	return nil
}
