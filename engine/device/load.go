package device

import (
	"fmt"

	"github.com/prefillonly/prefillonly/engine/host"
	"github.com/prefillonly/prefillonly/engine/model"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/tensorparallel"
)

// hostOptions are those of models on a backend of so much memory, on each rank, and of host memory for all.
func hostOptions(o Options, backend kernels.Backend, device, beside int64) host.Options {
	return host.Options{
		Backend: backend, Partial: o.Partial,
		Limits: host.Limits{
			Device: device, Host: beside, Ranks: o.Ranks, CacheBytes: o.CacheBytes, CacheShare: o.CacheShare,
			Offloading: int64(o.Offloading * (1 << 30)),
		},
		Passes:   model.Options{ChunkRows: o.PrefillChunk},
		Blobs:    o.Blobs,
		CacheDir: o.CacheDir, Log: o.Log, Loading: o.Loading,
		Check: func(c weights.Config) error { return checkRanks(c, o.Ranks) },
	}
}

// openHost opens the models on a backend, which it closes if it fails.
func openHost(options host.Options, models []host.Model) (Runner, error) {
	h, err := host.Open(options, models)
	if err != nil {
		options.Backend.Close()
		return nil, &Error{openFailure(err), err}
	}
	return h, nil
}

// checkRanks says why ranks cannot share a model evenly.
func checkRanks(c weights.Config, ranks int) error {
	if ranks == 1 {
		return nil
	}
	heads := kernels.Heads{Q: c.NumAttentionHeads, KV: c.NumAttentionHeads}
	if c.NumKeyValueHeads != nil {
		heads.KV = *c.NumKeyValueHeads
	}
	if err := tensorparallel.Check(ranks, heads, c.IntermediateSize); err != nil {
		return fmt.Errorf("--tensor-parallel-size: %w", err)
	}
	return nil
}
