package architecture

import "github.com/prefillonly/prefillonly/engine/weights"

// starCoder2 is StarCoder 2 (Lozhkov et al. 2024): Llama with centred norms and an MLP without gate, all with biases, and mostly a sliding window.
func starCoder2(c *weights.Config, s *Spec) error {
	more := struct {
		Biased bool     `json:"use_bias"`
		Eps    *float64 `json:"norm_epsilon"`
		Tied   *bool    `json:"tie_word_embeddings"`
		Act    string   `json:"hidden_act"`
	}{Biased: true, Act: "gelu_pytorch_tanh"} // transformers' defaults, here and below
	if err := c.ReadKeys(&more); err != nil {
		return err
	}
	s.Tied = more.Tied == nil || *more.Tied
	s.QKVBias, s.OutBias, s.MLPBias, s.NormBias = more.Biased, more.Biased, more.Biased, true
	s.Ungated = true
	s.centreNorms(more.Eps)
	s.names.Up, s.names.MLPOut = "mlp.c_fc", "mlp.c_proj"
	for i := range s.Windows {
		if c.SlidingWindow.Set {
			s.Windows[i] = c.SlidingWindow.N
		}
	}
	return s.activateUngated(more.Act)
}
