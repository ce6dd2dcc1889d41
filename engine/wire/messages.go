// Package wire holds the messages between frontend, scheduler and executor, and their binary form;
// the same structs are the input and output of scheduler.Core.
package wire

import (
	"time"

	"github.com/prefillonly/prefillonly/engine"
)

// Version is the protocol's version. A peer with another version is refused by name and number.
const Version = 2

// Message is one of the structs below.
type Message interface{ kind() Kind }

// BlockID names a page of an executor's KV pool, or of its host memory.
type BlockID uint32

// Copy is a block's way between a page of the device and a page of host memory.
type Copy struct{ Device, Host BlockID }

// PassID names one pass on one executor; the scheduler counts them.
type PassID uint64

// Role is what a peer of the scheduler is.
type Role string

// The roles that may say Hello.
const (
	RoleFrontend Role = "frontend"
	RoleExecutor Role = "executor"
)

// Hello registers a peer, and renews its registration: every peer sends it when it starts, when it
// sees a Welcome with an unknown Epoch, and as a heartbeat. A Hello with a new Epoch says that the
// peer has lost all state: its KV pages are empty and its passes are gone.
type Hello struct {
	Role     Role
	Name     string         // stable over restarts, e.g. "cpu-0"
	Epoch    uint64         // drawn anew at each start, and when the peer sees a new scheduler
	Executor *ExecutorInfo  // nil from a frontend, and from an executor that is still loading its model
	State    *ExecutorState // of an executor; may be nil
}

// ExecutorInfo is what an executor can run.
type ExecutorInfo struct {
	Device      string // "cpu (avx512_bf16, 2 threads)", "cuda:0 (NVIDIA H200)"
	Model       string // served model name
	Fingerprint string // of the checkpoint: executors of equal fingerprints serve the same jobs
	VocabSize   int
	MaxModelLen int           // longest prompt plus generated tokens
	BlockTokens int           // tokens in a KV block
	NumBlocks   int           // pages of the prefix cache
	HostBlocks  int           // pages of host memory for blocks that it evicts; 0: none
	MaxPassRows int           // new tokens one packed pass may hold
	CanPause    bool          // understands Pause and Resume
	CopiesParts bool          // takes RunItem.Part
	Layers      int           // of a pass, about equally long; 0: not told
	CostBase    time.Duration // fitted cost of an empty pass; all Cost* 0: not profiled
	CostToken   time.Duration // per cache-miss token
	CostPair    float64       // seconds per (n_input^2 - n_cached^2)/2 pairs of attention
	CostLoad    time.Duration // to load a block from host memory; 0: not measured
}

// Welcome answers every Hello. Epoch is the scheduler's; a new one says that it has lost all
// state: frontends submit their open jobs again, executors draw a new Epoch and say Hello.
type Welcome struct {
	Epoch     uint64
	Executors []ExecutorInfo // those alive now, for readiness and limits
	Waiting   int            // jobs in the queue
	Running   int            // jobs in passes
	CacheUsed float64        // share of KV blocks in use, 0..1
	Stats     Stats
	// PassTokens counts passes by the tokens they computed: at the index of a bound of PassTokenBounds those
	// of no more, and of more than the bound before; last, those beyond all bounds.
	PassTokens []uint64
	States     []ExecutorState // of executors alive or loading, as far as they tell
}

// Stats are the scheduler's counters since its start; the frontend publishes them.
type Stats struct {
	Passes, Preemptions, Retries uint64
	PrefixQueries, PrefixHits    uint64 // tokens
	HostQueries, HostHits        uint64 // tokens not found on the device, and those of them in host memory
	Evictions, ExecutorLost      uint64
	ComputedTokens               uint64 // in passes, what was found in caches aside

	// Jobs refused, by the admission bound that they would have passed.
	RefusedJobs, RefusedTokens, RefusedTime uint64
}

// PassTokenBounds are the upper bounds of the counts of Welcome.PassTokens.
var PassTokenBounds = [...]float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}

// Submit brings a job. The frontend holds it until the final Result, and submits it again when
// the scheduler changes its Epoch.
type Submit struct {
	Job        engine.JobID
	Model      string
	Tokens     []engine.TokenID // raw frame
	MaxTokens  int              // >= 0; 0 asks for prompt logprobs alone
	StopTokens []engine.TokenID // generation ends on these
	Ask        engine.Ask
	User       string        // routing and fairness key; may be empty
	Salt       string        // separates the prefix cache; may be empty
	Priority   int           // lower first, under the priority policy
	Deadline   time.Duration // from arrival; 0 = none
	Waited     time.Duration // how long the frontend has held it already (after a scheduler restart)
}

// Cancel withdraws a job; no Result follows.
type Cancel struct{ Job engine.JobID }

// Reset asks that the prefix caches be emptied of all that no job holds; ResetDone answers.
type Reset struct{ Serial uint64 }

// ResetDone tells what a Reset has done.
type ResetDone struct {
	Serial  uint64
	Dropped int // blocks, on devices and in host memory
	Held    int // pages of devices that jobs still hold
}

// Result is one generated token of a job, or its end. The last one has Finish set, or Err.
type Result struct {
	Job    engine.JobID
	Index  int // of the token, from 0
	Answer *engine.Answer
	Prompt []engine.PromptScore // with the first token: one for each prompt position from 1
	Cached int                  // prompt tokens found in the cache when the first pass began
	Finish engine.Finish
	Timing engine.Timing
	Err    *engine.Error
}

// Run starts a pass over one or more items; the executor answers with Done (or Paused). It makes the
// saves, in their order, when it takes the message, even if the pass is dropped before it begins; then,
// when that begins, the loads.
type Run struct {
	Pass  PassID
	Saves []Copy // raw frame; from the device to host memory
	Loads []Copy // raw frame; from host memory to the device, to pages that the items read
	Items []RunItem
}

// RunItem is one job's part of a pass. Blocks name the pages of the sequence from its first token
// on: the first Cached tokens are in them when the loads are done, but for Part's, which are to be copied there
// (Cached less Part's is a multiple of the block size, or anything when the job is being continued); later
// ones are filled by this pass as far as Blocks reach; KV of tokens beyond them is dropped when the layer is
// done.
type RunItem struct {
	Job    engine.JobID
	Tokens []engine.TokenID // raw frame; the whole sequence, cached part included
	Cached int              // < len(Tokens)
	Blocks []BlockID        // raw frame
	Part   Part             // the last of the cached tokens, in a page of another sequence
	Draw   int              // tokens generated so far, the last of Tokens; with the seed it fixes the draw
	Ask    engine.Ask
}

// Part is the leading tokens of a page, fewer than it has room for; Tokens is 0 for none.
type Part struct {
	Block  BlockID
	Tokens int
}

// Pause asks that a pass stop after its current layer and keep its residual stream.
type Pause struct{ Pass PassID }

// Resume continues a paused pass; Abort drops a pass, running or paused, with no answer.
type Resume struct{ Pass PassID }

// Abort drops a pass, running or paused. Done or Paused may still cross it.
type Abort struct{ Pass PassID }

// Paused says that the pass stands still with its state kept. A pass that ended before the Pause
// came answers Done alone.
type Paused struct {
	Pass  PassID
	Layer int // layers completed
}

// Done ends a pass.
type Done struct {
	Pass  PassID
	Items []ItemResult  // in the order of Run.Items
	Took  time.Duration // time inside the runner
	Err   *engine.Error // the whole pass failed; Items is empty
}

// ItemResult answers one RunItem.
type ItemResult struct {
	Job    engine.JobID
	Answer *engine.Answer
	Prompt []engine.PromptScore
	Err    *engine.Error
}

// Tick lets time pass in a Core that hears nothing else; it never travels.
type Tick struct{}

// Lost says that a peer is gone (heartbeats stopped); it never travels.
type Lost struct{}

// Kind numbers the message types on the wire; numbers are never reused.
type Kind uint8

// The kinds, in the order of their numbers.
const (
	KindHello Kind = iota + 1
	KindWelcome
	KindSubmit
	KindCancel
	KindResult
	KindRun
	KindPause
	KindResume
	KindAbort
	KindPaused
	KindDone
	KindReset
	KindResetDone
	kindTick
	kindLost
)

func (*Hello) kind() Kind     { return KindHello }
func (*Welcome) kind() Kind   { return KindWelcome }
func (*Submit) kind() Kind    { return KindSubmit }
func (*Cancel) kind() Kind    { return KindCancel }
func (*Result) kind() Kind    { return KindResult }
func (*Run) kind() Kind       { return KindRun }
func (*Pause) kind() Kind     { return KindPause }
func (*Resume) kind() Kind    { return KindResume }
func (*Abort) kind() Kind     { return KindAbort }
func (*Paused) kind() Kind    { return KindPaused }
func (*Done) kind() Kind      { return KindDone }
func (*Reset) kind() Kind     { return KindReset }
func (*ResetDone) kind() Kind { return KindResetDone }
func (*Tick) kind() Kind      { return kindTick }
func (*Lost) kind() Kind      { return kindLost }
