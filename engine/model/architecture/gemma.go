package architecture

import (
	"errors"
	"fmt"
	"math"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

// gemma is Gemma's first models (Gemma Team 2024): GELU in place of SiLU, norms' weights counted from one, and embeddings times
// the root of their length.
func gemma(c *weights.Config, s *Spec) error {
	var more struct {
		Tied *bool `json:"tie_word_embeddings"`
	}
	if err := c.ReadKeys(&more); err != nil {
		return err
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

// gemma2 is Gemma 2 (Gemma Team 2024): norms of what sub-layers are given and of what they give, scores and logits that are capped, and a
// sliding window in every other layer.
func gemma2(c *weights.Config, s *Spec) error {
	caps := struct {
		Scores *float64 `json:"attn_logit_softcapping"`
		Logits *float64 `json:"final_logit_softcapping"`
	}{new(float64), new(float64)}
	*caps.Scores, *caps.Logits = 50, 30 // transformers' defaults
	if err := c.ReadKeys(&caps); err != nil {
		return err
	}
	for _, limit := range []struct {
		key string
		is  *float64
		to  *float32
	}{{"attn_logit_softcapping", caps.Scores, &s.ScoreCap}, {"final_logit_softcapping", caps.Logits, &s.LogitCap}} {
		if limit.is == nil {
			continue
		}
		if *limit.to = float32(*limit.is); !(*limit.to >= 1e-2 && *limit.to <= 1e6) {
			return fmt.Errorf("%s is %g, want a number from 0.01 to 1e+06, or null", limit.key, *limit.is)
		}
	}
	return gemmaBothNorms(c, s, 2)
}

// gemma3 is the text models of Gemma 3 (Gemma Team 2025): Gemma 2 with norms of queries and keys in place of caps, and a sliding window in
// all but every sixth layer, where frequencies are others.
func gemma3(c *weights.Config, s *Spec) error {
	more := struct {
		Scores     *float64 `json:"attn_logit_softcapping"`
		Logits     *float64 `json:"final_logit_softcapping"`
		LocalTheta float64  `json:"rope_local_base_freq"`
		Pattern    int      `json:"sliding_window_pattern"`
	}{LocalTheta: 10_000, Pattern: 6} // transformers' defaults, here and below
	if err := c.ReadKeys(&more); err != nil {
		return err
	}
	if more.Scores != nil || more.Logits != nil {
		return errors.New("attn_logit_softcapping and final_logit_softcapping: want null, as this family has norms of queries and keys in their place")
	}
	if more.Pattern < 1 {
		return fmt.Errorf("sliding_window_pattern is %d, want a positive number", more.Pattern)
	}
	s.QKNorm = true
	s.theta = 1_000_000
	s.sliding = &slidingRope{theta: more.LocalTheta, unscaled: true}
	return gemmaBothNorms(c, s, more.Pattern)
}

// gemmaBothNorms is what Gemma 2 and 3 have in common; every so many layers one has no sliding window.
func gemmaBothNorms(c *weights.Config, s *Spec, pattern int) error {
	more := struct {
		QueryScalar float64 `json:"query_pre_attn_scalar"`
		Activation  string  `json:"hidden_activation"`
	}{256, ""} // transformers' default
	err := c.ReadKeys(&more)
	if err == nil {
		err = gemma(c, s)
	}
	if err == nil && more.Activation != "" {
		s.Act, err = weights.ActivationOf("hidden_activation", more.Activation)
	}
	if err != nil {
		return err
	}
	if !(more.QueryScalar >= 1e-3 && more.QueryScalar <= 1e6) {
		return fmt.Errorf("query_pre_attn_scalar is %g, want a number from 0.001 to 1e+06", more.QueryScalar)
	}
	s.AttnScale = float32(1 / math.Sqrt(more.QueryScalar))
	s.Norms = Norms{Attention: "input_layernorm", AttentionGave: "post_attention_layernorm", MLP: "pre_feedforward_layernorm", MLPGave: "post_feedforward_layernorm"}
	return windowsInTurns(c, s, pattern, slidingWindow(c))
}
