package architecture

import "github.com/prefillonly/prefillonly/engine/weights"

// mistral is Mistral 7B and its successors (Jiang et al. 2023): Llama with every layer's attention
// within a sliding window, unless sliding_window is null.
func mistral(c *weights.Config, s *Spec) error {
	for i := range s.Windows {
		s.Windows[i] = slidingWindow(c)
	}
	return nil
}
