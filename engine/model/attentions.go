package model

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

// Attentions are the kinds of attention that a model's layers have, each once. Queries lie in rows of
// QKVCols, outputs in rows of Q*Dim.
func Attentions(config weights.Config) ([]kernels.AttentionSpec, error) {
	s, err := newSpec(&config)
	if err != nil {
		return nil, err
	}
	var kinds []kernels.AttentionSpec
	for _, window := range s.windows {
		if kind := s.attention(window); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds, nil
}
