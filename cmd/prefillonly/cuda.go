package main

import (
	"fmt"

	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/model"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"go.uber.org/zap"
)

// cudaChunk rows keep a GPU's matrix products bound by arithmetic, not by reading weights.
const cudaChunk = 4096

// lazyModules is left free for what the driver and cuBLASLt load at the first use of a kernel.
const lazyModules = 256 << 20

// openCUDA loads the model on a GPU and gives the prefix cache what is left of its share of memory.
func openCUDA(cfg *config.Config, log *zap.Logger) (executor.Runner, error) {
	index, err := cudaIndex(cfg)
	if err != nil {
		return nil, err
	}
	device, err := gpuAccess.open(index, cuda.Options{AttentionBackend: cfg.Attention, Note: func(s string) { log.Info(s) }})
	if err != nil {
		return nil, &exitError{exitDevice, err}
	}
	backend := cuda.New(device)
	r, err := loadCUDA(cfg, backend, log)
	if err != nil {
		backend.Close()
		return nil, err
	}
	return r, nil
}

func loadCUDA(cfg *config.Config, backend *cuda.Backend, log *zap.Logger) (*modelRunner, error) {
	onGPU := *cfg
	onGPU.CacheShare = 1
	if cfg.PrefillChunk == 0 {
		onGPU.PrefillChunk = cudaChunk
	}
	checkpoint, err := weights.ReadConfig(cfg.Model)
	if err != nil {
		return nil, &exitError{exitConfig, err}
	}
	plan, err := model.Predict(checkpoint, backend, modelOptions(&onGPU))
	if err != nil {
		return nil, &exitError{exitConfig, fmt.Errorf("%s: %w", cfg.Model, err)}
	}
	free, total, err := backend.Memory()
	if err != nil {
		return nil, &exitError{exitDevice, err}
	}
	longest := checkpoint.MaxPositionEmbeddings
	if cfg.MaxModelLen > 0 {
		longest = int(cfg.MaxModelLen)
	}
	gathered := plan.Block / int64(checkpoint.NumHiddenLayers) * int64(longest/cfg.BlockSize+1)
	r, err := loadModel(&onGPU, backend, gpuBudget(free, total, cfg.GPUMemory)-gathered-lazyModules, log)
	if exitCode(err) == exitMemory {
		err = &exitError{exitMemory, fmt.Errorf("%s: %w; of its %v %v are free, and --gpu-memory-utilization %v is a share of the total%s",
			backend.Name(), err, mebibytes(total), mebibytes(free), cfg.GPUMemory, holders(cfg))}
	}
	return r, err
}

// gpuBudget is what a model may take of a GPU with so much memory free: share of the total, less what
// others hold.
func gpuBudget(free, total int64, share float64) int64 {
	return int64(share*float64(total)) - (total - free)
}
