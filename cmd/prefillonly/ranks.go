package main

import (
	"fmt"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/tensorparallel"
)

// openRanks opens the ranks of --tensor-parallel-size, unless they cannot share the model evenly.
func openRanks(cfg *config.Config, open []func() (kernels.Rank, error), join func([]kernels.Rank) (tensorparallel.Collective, error), partials kernels.DType) (*tensorparallel.Backend, error) {
	c, err := weights.ReadConfig(cfg.Model)
	if err != nil {
		return nil, &exitError{exitConfig, err}
	}
	heads := kernels.Heads{Q: c.NumAttentionHeads, KV: c.NumAttentionHeads}
	if c.NumKeyValueHeads != nil {
		heads.KV = *c.NumKeyValueHeads
	}
	if err := tensorparallel.Check(len(open), heads, c.IntermediateSize); err != nil {
		return nil, &exitError{exitConfig, fmt.Errorf("--tensor-parallel-size: %w", err)}
	}
	b, err := tensorparallel.New(open, join, tensorparallel.Options{Partials: partials})
	if err != nil {
		return nil, &exitError{exitDevice, err}
	}
	return b, nil
}

// openCPURanks divides the threads among the ranks, which meet in this machine's memory, and the nodes
// of that memory where there are as many.
func openCPURanks(cfg *config.Config) (kernels.Backend, error) {
	threads := cfg.Threads
	if threads == 0 {
		threads = cpu.DefaultThreads()
	}
	if threads < cfg.Ranks {
		return nil, &exitError{exitConfig, fmt.Errorf("--tensor-parallel-size %d is more than the %d threads to divide", cfg.Ranks, threads)}
	}
	allowed, err := mayUse()
	if err != nil {
		return nil, &exitError{exitDevice, err}
	}
	nodes := processorsOf(cfg.Ranks, numaNodes, allowed)
	open := make([]func() (kernels.Rank, error), cfg.Ranks)
	for i := range open {
		own := (i+1)*threads/cfg.Ranks - i*threads/cfg.Ranks
		open[i] = func() (kernels.Rank, error) {
			if nodes != nil {
				if err := pin(nodes[i]); err != nil { // before the rank starts its threads
					return nil, err
				}
			}
			return cpu.New(cpu.Config{Threads: own})
		}
	}
	return openRanks(cfg, open, tensorparallel.JoinShared, kernels.F32)
}
