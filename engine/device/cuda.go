package device

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/model"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/tensorparallel"
)

// cudaChunk rows keep a GPU's matrix products bound by arithmetic, not by reading weights.
const cudaChunk = 4096

// lazyModules is left free for what the driver, cuBLASLt and cuDNN load at the first use of a kernel.
const lazyModules = 256 << 20

// NCCLEnv names the library that joins GPUs, as vLLM's variable does; without it the usual names are
// looked for.
const NCCLEnv = "VLLM_NCCL_SO_PATH"

// openCUDA loads the model on a GPU, or over several, and gives the prefix cache what is left of its
// share of memory.
func openCUDA(o Options) (executor.Runner, error) {
	indices, err := cudaIndices(o)
	if err != nil {
		return nil, err
	}
	open := func(index int) (cuda.Device, error) {
		return o.Access.Open(index, cudaOptions(o))
	}
	backend, devices, err := openGPUs(o, indices, open, os.Getenv(NCCLEnv))
	if err != nil {
		return nil, err
	}
	r, err := loadCUDA(o, backend, devices)
	if err != nil {
		backend.Close()
		return nil, err
	}
	return r, nil
}

// openGPUs is the backend of one GPU or of several that share a model, and each GPU's own.
func openGPUs(o Options, gpus []int, open func(n int) (cuda.Device, error), nccl string) (kernels.Backend, []*cuda.Backend, error) {
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
		return cuda.NewCollective(devices, gpus, nccl)
	}
	b, err := openRanks(o, opens, join, kernels.BF16)
	if err != nil {
		return nil, nil, err
	}
	return b, devices, nil
}

// cudaOptions are those of every GPU. Without a cache directory plans are compiled at every start.
func cudaOptions(o Options) cuda.Options {
	c := cuda.Options{AttentionBackend: o.Attention, Note: func(s string) { o.Log.Info(s) }}
	if o.CacheDir != "" {
		c.PlanDir = filepath.Join(o.CacheDir, "cudnn")
	}
	return c
}

// loadCUDA loads the model into what the fullest of the devices leaves.
func loadCUDA(o Options, backend kernels.Backend, devices []*cuda.Backend) (*modelRunner, error) {
	onGPU := o
	onGPU.CacheShare = 1
	if o.PrefillChunk == 0 {
		onGPU.PrefillChunk = cudaChunk
	}
	checkpoint, err := weights.ReadConfig(o.Model)
	if err != nil {
		return nil, &Error{Model, err}
	}
	plan, err := model.Predict(checkpoint, backend, modelOptions(onGPU))
	if err != nil {
		return nil, &Error{Model, fmt.Errorf("%s: %w", o.Model, err)}
	}
	gathered, err := gatherBytes(checkpoint, o, devices, plan.Block)
	if err != nil {
		return nil, &Error{Model, fmt.Errorf("%s: %w", o.Model, err)}
	}
	var tightest *cuda.Backend
	var free, total, budget int64
	for _, d := range devices {
		f, t, err := d.Memory()
		if err != nil {
			return nil, &Error{Device, err}
		}
		if b := gpuBudget(f, t, o.GPUMemory); tightest == nil || b < budget {
			tightest, free, total, budget = d, f, t, b
		}
	}
	r, err := loadModel(onGPU, backend, budget-gathered-lazyModules)
	if CauseOf(err) == Memory {
		err = &Error{Memory, fmt.Errorf("%s: %w; of its %v %v are free, and --gpu-memory-utilization %v is a share of the total%s",
			tightest.Name(), err, mebibytes(total), mebibytes(free), o.GPUMemory, holders(o))}
	}
	return r, err
}

// gatherBytes is what a GPU takes to gather the blocks of one layer of the longest sequence, of blocks of
// so many bytes over all layers: nothing where attention reads them in place, which is asked of a model
// on one GPU.
func gatherBytes(checkpoint weights.Config, o Options, devices []*cuda.Backend, block int64) (int64, error) {
	kinds, err := model.Attentions(checkpoint)
	if err != nil {
		return 0, err
	}
	gathers := func(kind kernels.AttentionSpec) bool { return !devices[0].InPlace(kind, o.BlockSize) }
	if len(devices) == 1 && !slices.ContainsFunc(kinds, gathers) {
		return 0, nil
	}
	longest := checkpoint.MaxPositionEmbeddings
	if o.MaxModelLen > 0 {
		longest = o.MaxModelLen
	}
	return block / int64(checkpoint.NumHiddenLayers) * int64(longest/o.BlockSize+1), nil
}

// gpuBudget is what a model may take of a GPU with so much memory free: share of the total, less what
// others hold.
func gpuBudget(free, total int64, share float64) int64 {
	return int64(share*float64(total)) - (total - free)
}
