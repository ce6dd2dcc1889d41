// Package device opens a device and loads a model onto it: ranks, the plan of memory, the prefix cache's
// share. An *Error says what keeps it from that.
package device

import (
	"strings"

	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"go.uber.org/zap"
)

// Options say which device to open, and what to load onto it.
type Options struct {
	Device  string   // cpu, null, cuda, or cuda: and GPUs joined by commas
	GPUs    []string // the numbers or UUIDs of the GPUs that Device names
	Ranks   int      // devices that share the model, at least 1
	Threads int      // that compute on the processor, of all ranks; 0 is one a core
	Access  Access   // how GPUs are reached, CUDA but in tests

	Model string // directory of the checkpoint
	Name  string // of the model in the runner's Info

	MaxModelLen  int     // longest sequence in tokens; 0 is the model's
	BlockSize    int     // tokens of a block of the prefix cache; 0 is engine/model's, which null has not
	PrefillChunk int     // rows that are computed together; 0 suits the device
	GPUMemory    float64 // share of a GPU's memory to use, up to 1
	CacheBytes   int64   // of the prefix cache; 0 is CacheShare
	CacheShare   float64 // of the host's memory that the model leaves, for the prefix cache; a GPU gives it all
	Offloading   float64 // GiB of host memory for blocks that a GPU's prefix cache has no room for
	Attention    string  // what computes attention on GPUs, as cuda.Options has it

	Profile  string // file of what passes cost, which must be there; empty is the one in CacheDir, if it fits
	CacheDir string // for profiles and compiled plans; empty keeps none

	Log     *zap.Logger
	Loading func() (progress func(done, total int64), end func()) // tells of the bytes of weights from now on; may be nil
	Working func()                                                // called in a pass between the chunks of a layer; may be nil
}

// Access is how GPUs are reached for computing.
type Access struct {
	BusIDs func() ([]string, error)
	Open   func(index int, o cuda.Options) (cuda.Device, error)
}

// CUDA reaches this machine's GPUs.
var CUDA = Access{cuda.BusIDs, cuda.Open}

// Open makes the runner of the device, on the thread that will call it.
func Open(o Options) (executor.Runner, error) {
	switch {
	case o.Device == "null":
		return openNull(o)
	case strings.HasPrefix(o.Device, "cuda"):
		return openCUDA(o)
	}
	return openCPU(o)
}

// openNull makes the runner without a model; it has the checkpoint's limits and no weights.
func openNull(o Options) (executor.Runner, error) {
	c, err := weights.ReadConfig(o.Model)
	if err != nil {
		return nil, &Error{Model, err}
	}
	maxLen := c.MaxPositionEmbeddings
	if o.MaxModelLen > 0 {
		maxLen = o.MaxModelLen
	}
	return executor.NewNull(wire.ExecutorInfo{
		Device: "null", Model: o.Name, Fingerprint: "null", VocabSize: c.VocabSize,
		MaxModelLen: maxLen, BlockTokens: o.BlockSize, NumBlocks: 1 << 20 / o.BlockSize, MaxPassRows: maxLen, CanPause: true, CopiesParts: true,
	}), nil
}
