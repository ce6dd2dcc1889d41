package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/model"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/tensorparallel"
	"go.uber.org/zap"
)

// cudaChunk rows keep a GPU's matrix products bound by arithmetic, not by reading weights.
const cudaChunk = 4096

// lazyModules is left free for what the driver, cuBLASLt and cuDNN load at the first use of a kernel.
const lazyModules = 256 << 20

// ncclEnv names the library that joins GPUs, as vLLM's variable does; without it the usual names are
// looked for.
const ncclEnv = "VLLM_NCCL_SO_PATH"

// openCUDA loads the model on a GPU, or over several, and gives the prefix cache what is left of its
// share of memory.
func openCUDA(cfg *config.Config, v *vitals, log *zap.Logger) (executor.Runner, error) {
	indices, err := cudaIndices(cfg)
	if err != nil {
		return nil, err
	}
	open := func(index int) (cuda.Device, error) {
		return gpuAccess.open(index, cudaOptions(cfg, log))
	}
	backend, devices, err := openGPUs(cfg, indices, open, os.Getenv(ncclEnv))
	if err != nil {
		return nil, err
	}
	r, err := loadCUDA(cfg, backend, devices, v, log)
	if err != nil {
		backend.Close()
		return nil, err
	}
	return r, nil
}

// openGPUs is the backend of one GPU or of several that share a model, and each GPU's own.
func openGPUs(cfg *config.Config, gpus []int, open func(n int) (cuda.Device, error), nccl string) (kernels.Backend, []*cuda.Backend, error) {
	if len(gpus) == 1 {
		device, err := open(gpus[0])
		if err != nil {
			return nil, nil, &exitError{exitDevice, err}
		}
		b := cuda.New(device)
		return b, []*cuda.Backend{b}, nil
	}
	devices, opens := make([]*cuda.Backend, len(gpus)), make([]func() (kernels.Rank, error), len(gpus))
	for i, n := range gpus {
		opens[i] = func() (kernels.Rank, error) {
			device, err := open(n)
			if err != nil {
				return nil, err
			}
			devices[i] = cuda.New(device)
			return devices[i], nil
		}
	}
	join := func([]kernels.Rank) (tensorparallel.Collective, error) {
		return cuda.NewCollective(devices, gpus, nccl)
	}
	b, err := openRanks(cfg, opens, join, kernels.BF16)
	if err != nil {
		return nil, nil, err
	}
	return b, devices, nil
}

// cudaOptions are those of every GPU. Without a cache directory plans are compiled at every start.
func cudaOptions(cfg *config.Config, log *zap.Logger) cuda.Options {
	o := cuda.Options{AttentionBackend: cfg.Attention, Note: func(s string) { log.Info(s) }}
	if dir, err := cacheDir(); err == nil {
		o.PlanDir = filepath.Join(dir, "cudnn")
	}
	return o
}

// loadCUDA loads the model into what the fullest of the devices leaves.
func loadCUDA(cfg *config.Config, backend kernels.Backend, devices []*cuda.Backend, v *vitals, log *zap.Logger) (*modelRunner, error) {
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
	gathered, err := gatherBytes(checkpoint, cfg, devices, plan.Block)
	if err != nil {
		return nil, &exitError{exitConfig, fmt.Errorf("%s: %w", cfg.Model, err)}
	}
	var tightest *cuda.Backend
	var free, total, budget int64
	for _, d := range devices {
		f, t, err := d.Memory()
		if err != nil {
			return nil, &exitError{exitDevice, err}
		}
		if b := gpuBudget(f, t, cfg.GPUMemory); tightest == nil || b < budget {
			tightest, free, total, budget = d, f, t, b
		}
	}
	r, err := loadModel(&onGPU, backend, budget-gathered-lazyModules, v, log)
	if exitCode(err) == exitMemory {
		err = &exitError{exitMemory, fmt.Errorf("%s: %w; of its %v %v are free, and --gpu-memory-utilization %v is a share of the total%s",
			tightest.Name(), err, mebibytes(total), mebibytes(free), cfg.GPUMemory, holders(cfg))}
	}
	return r, err
}

// gatherBytes is what a GPU takes to gather the blocks of one layer of the longest sequence, of blocks of
// so many bytes over all layers: nothing where attention reads them in place, which is asked of a model
// on one GPU.
func gatherBytes(checkpoint weights.Config, cfg *config.Config, devices []*cuda.Backend, block int64) (int64, error) {
	kinds, err := model.Attentions(checkpoint)
	if err != nil {
		return 0, err
	}
	gathers := func(kind kernels.AttentionSpec) bool { return !devices[0].InPlace(kind, cfg.BlockSize) }
	if len(devices) == 1 && !slices.ContainsFunc(kinds, gathers) {
		return 0, nil
	}
	longest := checkpoint.MaxPositionEmbeddings
	if cfg.MaxModelLen > 0 {
		longest = int(cfg.MaxModelLen)
	}
	return block / int64(checkpoint.NumHiddenLayers) * int64(longest/cfg.BlockSize+1), nil
}

// gpuBudget is what a model may take of a GPU with so much memory free: share of the total, less what
// others hold.
func gpuBudget(free, total int64, share float64) int64 {
	return int64(share*float64(total)) - (total - free)
}
