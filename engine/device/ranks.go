package device

import (
	"fmt"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/tensorparallel"
)

// openRanks opens the ranks of --tensor-parallel-size, unless they cannot share the model evenly.
func openRanks(o Options, open []func() (kernels.Rank, error), join func([]kernels.Rank) (tensorparallel.Collective, error), partials kernels.DType) (*tensorparallel.Backend, error) {
	c, err := weights.ReadConfig(o.Model)
	if err != nil {
		return nil, &Error{Model, err}
	}
	heads := kernels.Heads{Q: c.NumAttentionHeads, KV: c.NumAttentionHeads}
	if c.NumKeyValueHeads != nil {
		heads.KV = *c.NumKeyValueHeads
	}
	if err := tensorparallel.Check(len(open), heads, c.IntermediateSize); err != nil {
		return nil, &Error{Configuration, fmt.Errorf("--tensor-parallel-size: %w", err)}
	}
	b, err := tensorparallel.New(open, join, tensorparallel.Options{Partials: partials})
	if err != nil {
		return nil, &Error{Device, err}
	}
	return b, nil
}
