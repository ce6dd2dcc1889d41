package wire

import (
	"time"

	"github.com/prefillonly/prefillonly/engine"
)

// Role is what a peer of the scheduler is.
type Role string

// The roles that may say Hello.
const (
	RoleFrontend Role = "frontend"
	RoleExecutor Role = "executor"
)

// Hello registers a peer, and renews its registration: every peer sends it when it starts, when it
// sees a Welcome with an unknown Epoch, and as a heartbeat. A Hello with a new Epoch says that the
// peer has lost all state but weights: its KV pages are empty and its passes and loads are gone.
type Hello struct {
	Role     Role
	Name     string         // stable over restarts, e.g. "cpu-0"
	Epoch    uint64         // drawn anew at each start, and when the peer sees a new scheduler
	Models   uint64         // of a frontend: the Welcome.Models that it knows the models by
	Executor *ExecutorInfo  // of an executor, when its Epoch is new or what it says has changed; else nil
	State    *ExecutorState // of an executor; may be nil
}

// ExecutorInfo is what an executor can run. Models may come and go, and what is said of them may change; what
// they share, too. Weights are only ever added at the end.
type ExecutorInfo struct {
	Device   string      // "cpu (avx512_bf16, 2 threads)", "cuda:0 (NVIDIA H200)"
	Memory   uint64      // bytes that weights may take together with the largest Work among models in passes; 0: no bound
	LoadRate float64     // bytes of weights a second; 0: not measured
	CanPause bool        // understands Pause and Resume
	Nests    bool        // takes Run.Nested
	Aside    bool        // weights are loaded beside passes, and take none of the device's time
	Weights  []Weight    // the pieces in which weights are loaded and dropped
	Models   []ModelInfo // by the order of their registration
}

// Weight is a piece of weights, such as a layer of a model; models that have it in common refer to the same one.
type Weight struct {
	Bytes    uint64 // on the device
	Resident bool   // when the Hello was said
}

// ModelInfo is a model that an executor can run once its weights are resident. Exactly one of Tokens and
// Tensors is set, unless Reason is.
type ModelInfo struct {
	Name        string        // as requests name it
	Fingerprint string        // of the checkpoint: executors of equal fingerprints serve the same jobs
	Reason      string        // why it cannot be run; empty: it can
	Weights     []uint32      // positions in ExecutorInfo.Weights, in the order in which to load them
	Work        uint64        // bytes of work memory that a pass of it takes, beside weights and KV pages
	Keep        Keep          // when its weights may be dropped
	Idle        time.Duration // with KeepIdle: after so long without a job
	Step        time.Duration // that a step takes at most; 0: not measured
	Cost        Cost
	Tokens      *TokenLimits  // of a model that takes Tokens
	Tensors     *TensorLimits // of one that takes Tensors
}

// Keep says when a model's weights may be dropped.
type Keep uint8

// The ways to keep a model.
const (
	KeepOnDemand Keep = iota // when others need the room
	KeepIdle                 // when others need the room, or it has been idle for some time
	KeepAlways               // never; it is loaded before all others
)

// Cost is the fitted cost of passes; all 0: not profiled.
type Cost struct {
	Base time.Duration // of an empty pass
	Unit time.Duration // per cache-miss token, or frame
	Pair float64       // seconds per (n_input^2 - n_cached^2)/2 pairs of attention
	Load time.Duration // to load a KV block from host memory; 0: not measured
}

// TokenLimits is what a model that takes Tokens accepts.
type TokenLimits struct {
	VocabSize   int
	MaxModelLen int  // longest prompt plus generated tokens
	BlockTokens int  // tokens in a KV block
	NumBlocks   int  // pages of the prefix cache
	HostBlocks  int  // pages of host memory for blocks that it evicts; 0: none
	MaxPassRows int  // new tokens one packed pass may hold
	CopiesParts bool // takes TokenItem.Part
	Hidden      int  // numbers in a vector of Ask.Pool; 0: it gives none
	Labels      int  // numbers that its classification head gives; 0: it has none
	VectorsOnly bool // it has no LM head: vectors alone can be asked of it
}

// TensorLimits is what a model that takes Tensors accepts.
type TensorLimits struct {
	Inputs, Outputs []TensorSpec
	MaxPassItems    int     // jobs that one pass may hold
	Elements        int     // of all inputs of the frame that Cost is of
	Growth          float64 // of a frame's cost with its elements, see Units; 0: frames are of one size
	Backward        float64 // frames that a frame's gradient costs beside the frame itself; 0: it gives none
}

// Units is the cost of some frames whose inputs have so many elements together, in that of the frame that Cost is of: a
// line through frames of two sizes, whose slope is Growth. Where it falls below zero the cost is taken to be proportional.
func (l *TensorLimits) Units(frames, elements float64, gradient bool) float64 {
	size, slope := 1.0, l.Growth
	if l.Elements > 0 && frames > 0 {
		size = elements / frames / float64(l.Elements)
	}
	if size < 1 {
		slope = min(slope, 1)
	}
	units := frames * (1 + slope*(size-1))
	if gradient {
		units *= 1 + l.Backward
	}
	return units
}

// TensorSpec is one input or output.
type TensorSpec struct {
	Name  string
	Type  engine.DType
	Shape []int // -1: any; the first dimension is the batch
}

// Welcome answers every Hello. Epoch is the scheduler's; a new one says that it has lost all
// state: frontends submit their open jobs again, executors draw a new Epoch and say Hello.
type Welcome struct {
	Epoch  uint64
	Models uint64          // changes when Served does; 0: to an executor, who is told no more
	Served []Served        // of all models, if the Hello did not know them by Models
	Pool   Stats           // of the scheduler and its executors as a whole
	Stats  []ModelStats    // of models that have had a job
	States []ExecutorState // of executors alive or loading, as far as they tell
}

// Served is a model as the pool serves it.
type Served struct {
	Name      string
	State     ModelState
	Reason    string // with ModelFailed, or why the last load failed
	Executors int    // that can run it, whether it is loaded there or not
	Loaded    int    // of them, on which it is
	Bytes     uint64 // of its weights on one of them
	Keep      Keep
	Step      time.Duration
	Cost      Cost
	Tokens    *TokenLimits // of all executors together: the largest limits, the sum of the pages
	Tensors   *TensorLimits
}

// TensorTime is about what a device takes for a job of so many units, of a model that takes tensors.
func (m *Served) TensorTime(units float64) time.Duration {
	return m.Cost.Base + time.Duration(units*float64(m.Cost.Unit))
}

// ModelState is how a model is in the pool.
type ModelState uint8

// The states of a model: the best on any executor.
const (
	ModelAbsent    ModelState = iota // it is loaded when a job needs it
	ModelLoading                     // its weights are on their way
	ModelReady                       // its weights are on a device
	ModelUnloading                   // it takes no new job, and leaves when those there are done
	ModelFailed                      // no executor can run it
)

func (s ModelState) String() string {
	return [...]string{"absent", "loading", "ready", "unloading", "failed"}[s]
}

// Stats are counters since the scheduler's start that no model is to be held to; the frontend publishes them.
type Stats struct {
	Preemptions, Retries, ExecutorLost uint64
	Nested                             uint64 // passes run inside others
	WeightBytes, WeightUsed            uint64 // that executors have room for, and that are resident now

	// Jobs refused, by the admission bound that they would have passed.
	RefusedJobs, RefusedTokens, RefusedTime, RefusedUtilisation uint64
}

// ModelStats are one model's counters since the scheduler's start, and its gauges.
type ModelStats struct {
	Model            string
	Waiting, Running int     // jobs in queues, and in passes, but for those of engine.Lowest
	Lowest           int     // of engine.Lowest, in both
	CacheUsed        float64 // share of KV blocks in use, 0..1

	Passes, ComputedUnits     uint64
	PassTime                  time.Duration // inside runners, of passes that have ended
	PrefixQueries, PrefixHits uint64        // tokens
	HostQueries, HostHits     uint64        // tokens not found on the device, and those of them in host memory
	Evictions                 uint64        // of blocks
	Loads, Drops              uint64        // times that it became ready, and that it ceased to be
	LoadedBytes               uint64
	LoadTime                  time.Duration
	Late, Superseded          uint64 // frames dropped because their deadline could not be met, or a newer one came
	// PassUnits counts passes by the tokens or frames they computed: at the index of a bound of PassUnitBounds
	// those of no more, and of more than the bound before; last, those beyond all bounds.
	PassUnits []uint64
}

// PassUnitBounds are the upper bounds of the counts of ModelStats.PassUnits.
var PassUnitBounds = [...]float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}

// ExecutorState is how an executor and its device are, as far as that is known. It is for people and
// monitoring; no decision is made by it.
type ExecutorState struct {
	Name   string // the executor's
	Loaded uint64 // bytes of weights read so far
	ToLoad uint64 // bytes of weights in all; 0 where that is not known
	GPU    string // e.g. "NVIDIA H200"; empty without one, as are the fields below
	UUID   string
	// Readings are the GPU's figures under the names that NVIDIA's DCGM exporter gives them.
	Readings []Reading
	Device   string      // that it computes on; the scheduler's to say, as Passes are
	Passes   []PassState // that it has begun, the running one first
}

// Reading is one figure.
type Reading struct {
	Name  string
	Value float64
}

// PassState is how a pass is that has begun.
type PassState struct {
	Model string
	Jobs  int
	Units uint64        // tokens or frames that it computes
	Ran   time.Duration // so far
	Place PassPlace
}

// PassPlace is where a pass is on its executor.
type PassPlace uint8

// The places of passes.
const (
	PassRuns      PassPlace = iota
	PassNested              // inside the one that runs
	PassPaused              // by one that is worth more now
	PassPreparing           // until what it needs is made beside the device
	PassLowest              // of engine.Lowest: stepped while no other pass is to be
)
