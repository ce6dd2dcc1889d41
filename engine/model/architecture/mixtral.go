package architecture

import (
	"github.com/prefillonly/prefillonly/engine/weights"
)

// mixtral is Mixtral 8x7B and 8x22B (Jiang et al. 2024): Mistral with experts in all layers.
func mixtral(c *weights.Config, s *Spec) error {
	more := struct {
		Experts int `json:"num_local_experts"`
		Chosen  int `json:"num_experts_per_tok"`
	}{Experts: 8, Chosen: 2} // transformers' defaults, here and below
	if err := c.ReadKeys(&more); err != nil {
		return err
	}
	if c.RMSNormEps == nil {
		s.Eps = 1e-5
	}
	s.theta = 1_000_000
	for i := range s.Windows {
		if c.SlidingWindow.Set {
			s.Windows[i] = c.SlidingWindow.N
		}
	}
	const moe = "block_sparse_moe."
	s.Mixture = Mixture{
		Experts: more.Experts, Chosen: more.Chosen, Normalised: true, inner: s.Intermediate, dense: make([]bool, s.Layers),
		names: mixtureNames{Router: moe + "gate", Experts: moe + "experts", Gate: "w1", Up: "w3", Out: "w2"},
	}
	return s.Mixture.checkNumbers(s, "num_local_experts", "intermediate_size")
}
