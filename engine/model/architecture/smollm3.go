package architecture

import (
	"fmt"

	"github.com/prefillonly/prefillonly/engine/weights"
)

// smolLM3 is SmolLM3 (Bakouch et al. 2025): Llama of which every fourth layer sees no positions, and may have a sliding window.
func smolLM3(c *weights.Config, s *Spec) error {
	more := struct {
		Turned   []int `json:"no_rope_layers"` // 0: the layer sees no positions
		Interval int   `json:"no_rope_layer_interval"`
		Tied     *bool `json:"tie_word_embeddings"`
	}{Interval: 4} // transformers' defaults, here and below
	if err := c.ReadKeys(&more); err != nil {
		return err
	}
	s.QKVBias, s.OutBias = c.AttentionBias, c.AttentionBias
	s.Tied = more.Tied == nil || *more.Tied
	s.theta = 2_000_000
	if more.Turned != nil && len(more.Turned) < s.Layers || more.Turned == nil && more.Interval < 1 {
		return fmt.Errorf("no_rope_layers has %d entries for %d layers, and no_rope_layer_interval is %d", len(more.Turned), s.Layers, more.Interval)
	}
	s.unturned = make([]bool, s.Layers)
	for i := range s.unturned {
		if more.Turned != nil {
			s.unturned[i] = more.Turned[i] == 0
		} else {
			s.unturned[i] = (i+1)%more.Interval == 0
		}
	}
	if c.LayerTypes != nil {
		return layeredWindows(c, s)
	}
	for i, is := range s.unturned {
		if is && c.UseSlidingWindow && c.SlidingWindow.Set {
			s.Windows[i] = slidingWindow(c)
		}
	}
	return nil
}
