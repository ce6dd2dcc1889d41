package architecture

import (
	"fmt"

	"github.com/prefillonly/prefillonly/engine/weights"
)

// gptNeoX is GPT-NeoX 20B (Black et al. 2022) and Pythia (Biderman et al. 2023): centred norms and an MLP without gate, with biases, attention and
// MLP in parallel, and queries, keys and values of each head side by side in one tensor.
func gptNeoX(c *weights.Config, s *Spec) error {
	more := struct {
		Parallel   bool     `json:"use_parallel_residual"`
		Biased     bool     `json:"attention_bias"`
		Activation string   `json:"hidden_act"`
		Part       *float64 `json:"rotary_pct"` // as written by transformers 4, as is the next
		Base       *float64 `json:"rotary_emb_base"`
	}{Parallel: true, Biased: true, Activation: "gelu"} // transformers' defaults, here and below
	if err := c.ReadKeys(&more); err != nil {
		return err
	}
	if s.Heads.KV != s.Heads.Q {
		return fmt.Errorf("num_key_value_heads is %d, want %d, as many as num_attention_heads", s.Heads.KV, s.Heads.Q)
	}
	s.Parallel = more.Parallel
	s.QKVBias, s.OutBias, s.MLPBias, s.NormBias = more.Biased, more.Biased, true, true
	s.FusedQKV, s.FusedHeads, s.Ungated = true, true, true
	s.turnedPart = 0.25
	if more.Part != nil {
		s.turnedPart = *more.Part
	}
	if more.Base != nil {
		s.theta = *more.Base
	}
	s.centreNorms(c.LayerNormEps)
	s.names = Names{
		Trunk: "gpt_neox.", LMHead: "embed_out", Embedding: "embed_in", Norm: "final_layer_norm",
		QKV: "attention.query_key_value", Out: "attention.dense", Up: "mlp.dense_h_to_4h", MLPOut: "mlp.dense_4h_to_h",
	}
	s.unused = []string{".attention.bias", ".attention.masked_bias"} // masks
	return s.activateUngated(more.Activation)
}
