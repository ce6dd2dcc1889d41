package encoder

import (
	"errors"

	"github.com/prefillonly/prefillonly/engine/model/architecture"
	"github.com/prefillonly/prefillonly/engine/weights"
)

// embeddingGemma is Gemma 3 where tokens see those behind them, too (EmbeddingGemma, Vera et al. 2025): the decoder's configuration and layers, and windows to
// both sides.
func embeddingGemma(c *weights.Config, s *spec) error {
	d, err := architecture.BothWays(c)
	switch {
	case err != nil:
		return err
	case d.QKVBias || d.OutBias:
		return errors.New("attention_bias is true, which is not computed where tokens see those behind them")
	}
	s.gated, s.rootMean, s.act, s.eps = true, true, d.Act, d.Eps
	s.heads, s.normOffset, s.embedScale, s.scale = d.Heads, d.NormOffset, d.EmbedScale, d.Attention(0).Scale
	for i := range d.Rotations {
		r := &d.Rotations[i]
		if r.Scale != 1 {
			return errors.New("the rope scaling multiplies queries and keys, which is not computed where tokens see those behind them")
		}
		s.freqs = append(s.freqs, r.Frequencies(d.MaxLen))
	}
	for i, window := range d.Windows {
		if s.rope[i] = d.LayerRotation[i]; window > 0 {
			s.windows[i] = window/2 + 1
		}
	}
	s.names = names{
		prefixes: trunkPrefixes(c, "model."), word: "embed_tokens", layer: "layers.%d.",
		qkv: []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}, qNorm: "self_attn.q_norm", kNorm: "self_attn.k_norm", out: "self_attn.o_proj",
		attnNorm: d.Norms.Attention, attnGave: d.Norms.AttentionGave, mlpNorm: d.Norms.MLP, mlpGave: d.Norms.MLPGave,
		up: []string{"mlp.gate_proj", "mlp.up_proj"}, down: "mlp.down_proj", final: "norm",
		unused: []string{"lm_head."},
	}
	return nil
}
