// Package device opens a device for the models that it is to host: ranks, limits of memory, the prefix caches'
// share. An *Error says what keeps it from that.
package device

import (
	"context"
	"strings"

	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/host"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/driver"
	"go.uber.org/zap"
)

// Options say which device to open, and what to host on it.
type Options struct {
	Device  string   // cpu, null, cuda, or cuda: and GPUs joined by commas
	GPUs    []string // the numbers or UUIDs of the GPUs that Device names
	Ranks   int      // devices that share every model, at least 1
	Threads int      // that compute on the processor, of all ranks; 0 is one a core
	Access  Access   // how GPUs are reached, CUDA but in tests

	Models  []host.Model // null needs their BlockTokens
	Partial bool         // other executors have models too: these may be none that can be run

	Memory       int64   // bytes that models may take: of the host on the processor, of each GPU; 0 is what there is
	PrefillChunk int     // rows that are computed together; 0 suits the device
	GPUMemory    float64 // share of a GPU's memory to use, up to 1
	CacheBytes   int64   // of all prefix caches; 0 is CacheShare
	CacheShare   float64 // of the host's memory that the models leave, for the prefix caches; a GPU gives it all
	Offloading   float64 // GiB of host memory for blocks that a GPU's prefix caches have no room for
	Attention    string  // what computes attention on GPUs, as driver.Options has it

	CacheDir string // for profiles and compiled plans; empty keeps none

	Blobs dnn.Blobs // where networks find their inputs and leave their outputs; nil: none can be run

	Log     *zap.Logger
	Loading func(model string, done, total int64) // told of each tensor that is loaded, in bytes of the model's; may be nil
}

// Access is how GPUs are reached for computing.
type Access struct {
	BusIDs func() ([]string, error)
	Open   func(index int, o driver.Options) (cuda.Device, error)
}

// CUDA reaches this machine's GPUs.
var CUDA = Access{driver.BusIDs, driver.Open}

// Runner is an executor's, whose models may be changed.
type Runner interface {
	executor.Runner
	// SetModels makes the models those given, in that order. One that is there no longer takes no more passes.
	// One that stays may have another Keep or Idle; of one that is to change otherwise, or whose files have, each
	// call does a part, and again asks for the next once the scheduler was told.
	SetModels(models []host.Model) (again bool)
	// Ahead reads what models are for SetModels to take it from there, which the device waits for. It may be
	// called by any goroutine.
	Ahead(ctx context.Context, models []host.Model)
}

// Open makes the runner of the device, on the thread that will call it. It loads no weights. One of several
// models that cannot be run does not hinder the others: its wire.ModelInfo has the reason.
func Open(o Options) (Runner, error) {
	switch {
	case o.Device == "null":
		return openNull(o)
	case strings.HasPrefix(o.Device, "cuda"):
		return openCUDA(o)
	}
	return openCPU(o)
}
