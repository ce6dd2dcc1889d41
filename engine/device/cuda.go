package device

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/prefillonly/prefillonly/engine/host"
	"github.com/prefillonly/prefillonly/engine/model"
	"github.com/prefillonly/prefillonly/engine/model/architecture"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/driver"
	"github.com/prefillonly/prefillonly/kernels/cuda/nccl"
	"github.com/prefillonly/prefillonly/kernels/tensorparallel"
)

// cudaChunk rows keep a GPU's matrix products bound by arithmetic, not by reading weights.
const cudaChunk = 4096

// lazyModules is left free for what the driver, cuBLASLt and cuDNN load at the first use of a kernel.
const lazyModules = 256 << 20

// NCCLEnv names the library that joins GPUs, as vLLM's variable does; without it the usual names are
// looked for.
const NCCLEnv = "VLLM_NCCL_SO_PATH"

// openCUDA hosts the models on a GPU, or over several, in their share of its memory.
func openCUDA(o Options) (Runner, error) {
	indices, err := cudaIndices(o)
	if err != nil {
		return nil, err
	}
	open := func(index int) (cuda.Device, error) {
		return o.Access.Open(index, cudaOptions(o))
	}
	backend, devices, err := openGPUs(indices, open, os.Getenv(NCCLEnv))
	if err != nil {
		return nil, err
	}
	return hostedCUDA(o, backend, devices)
}

// openGPUs is the backend of one GPU or of several that share a model, and each GPU's own.
func openGPUs(gpus []int, open func(n int) (cuda.Device, error), library string) (kernels.Backend, []*cuda.Backend, error) {
	if len(gpus) == 1 {
		device, err := open(gpus[0])
		if err != nil {
			return nil, nil, &Error{Device, err}
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
		return nccl.Join(devices, gpus, library)
	}
	b, err := openRanks(opens, join, kernels.BF16)
	if err != nil {
		return nil, nil, err
	}
	return b, devices, nil
}

// cudaOptions are those of every GPU. Without a cache directory plans are compiled at every start.
func cudaOptions(o Options) driver.Options {
	c := driver.Options{AttentionBackend: o.Attention, Note: func(s string) { o.Log.Info(s) }}
	if o.CacheDir != "" {
		c.PlanDir = filepath.Join(o.CacheDir, "cudnn")
	}
	return c
}

// hostedCUDA hosts the models in what the fullest of the devices leaves. It closes the backend if it fails.
func hostedCUDA(o Options, backend kernels.Backend, devices []*cuda.Backend) (Runner, error) {
	if o.PrefillChunk == 0 {
		o.PrefillChunk = cudaChunk
	}
	o.CacheShare = 1
	tightest, err := tightestOf(devices, o)
	var beside int64
	if err == nil {
		beside, err = availableMemory()
	}
	if err != nil {
		backend.Close()
		return nil, err
	}
	options := hostOptions(o, backend, o.limitMemory(tightest.budget-lazyModules), beside)
	options.Passes.ResidentRows = model.GPURows
	options.Extra = func(c weights.Config, limits *wire.TokenLimits, block int64) (int64, error) {
		return gatherBytes(c, devices, limits, block)
	}
	r, err := openHost(options, o.Models)
	if CauseOf(err) == Memory {
		err = &Error{Memory, fmt.Errorf("%s: %w; of its %v %v are free, and --gpu-memory-utilization %v is a share of the total%s",
			tightest.name, err, host.Mebibytes(tightest.total), host.Mebibytes(tightest.free), o.GPUMemory, memoryHolders(o))}
	}
	return r, err
}

// gpuMemory is the memory of a GPU, in bytes.
type gpuMemory struct {
	name                string
	free, total, budget int64
}

// tightestOf is that of the devices on which models may take least.
func tightestOf(devices []*cuda.Backend, o Options) (tightest gpuMemory, err error) {
	for i, d := range devices {
		free, total, err := d.Memory()
		if err != nil {
			return tightest, &Error{Device, err}
		}
		if b := gpuBudget(free, total, o.GPUMemory); i == 0 || b < tightest.budget {
			tightest = gpuMemory{d.Name(), free, total, b}
		}
	}
	return tightest, nil
}

// gatherBytes is what a GPU takes to gather the blocks of one layer of the longest sequence, of blocks of
// so many bytes over all layers: nothing where attention reads them in place, which is asked of a model
// on one GPU.
func gatherBytes(checkpoint weights.Config, devices []*cuda.Backend, limits *wire.TokenLimits, block int64) (int64, error) {
	kinds, err := architecture.Attentions(checkpoint)
	if err != nil {
		return 0, err
	}
	gathers := func(kind kernels.AttentionSpec) bool { return !devices[0].InPlace(kind, limits.BlockTokens) }
	if len(devices) == 1 && !slices.ContainsFunc(kinds, gathers) {
		return 0, nil
	}
	return block / int64(checkpoint.NumHiddenLayers) * int64(limits.MaxModelLen/limits.BlockTokens+1), nil
}

// gpuBudget is what a model may take of a GPU with so much memory free: share of the total, less what
// others hold.
func gpuBudget(free, total int64, share float64) int64 {
	return int64(share*float64(total)) - (total - free)
}
