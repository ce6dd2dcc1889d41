package wire

import (
	"time"

	"github.com/prefillonly/prefillonly/engine"
)

// BlockID names a page of a model's KV pool on an executor, or of its host memory.
type BlockID uint32

// Copy is a block's way between a page of the device and a page of host memory.
type Copy struct{ Device, Host BlockID }

// PassID names one pass on one executor; the scheduler counts them.
type PassID uint64

// Run starts a pass of a model over one or more items; the executor answers with Done (or Paused). It makes the
// saves, in their order, when it takes the message, even if the pass is dropped before it begins; then,
// when that begins, the loads.
type Run struct {
	Pass   PassID
	Model  string
	Nested bool   // runs to its end at the next step of the running pass, which then goes on
	Lowest bool   // of engine.Lowest: stepped while no other pass is to be, in the order of their Runs; no Pause, no Resume
	Saves  []Copy // raw frame; from the device to host memory
	Loads  []Copy // raw frame; from host memory to the device, to pages that the items read
	Items  []RunItem
}

// RunItem is one job's part of a pass.
type RunItem struct {
	Job  engine.JobID
	Work ItemWork
}

// ItemWork is what a pass computes for a job: *TokenItem or *TensorItem.
type ItemWork interface{ item() }

// TokenItem computes the last tokens of a sequence. It brings those, and of the others, for which the pages stand, none
// but the generated ones that Ask recalls; so nothing of a sequence is kept where it is run. Blocks name the pages of
// the sequence from its first token on: the first Cached tokens are in them when the loads are done, but for Part's,
// which are to be copied there (Cached less Part's is a multiple of the block size, or anything when the job is being
// continued); later ones are filled by this pass as far as Blocks reach; KV of tokens beyond them is dropped when the
// layer is done.
type TokenItem struct {
	From   int              // leading tokens of the sequence that are not in Tokens; <= Cached
	Tokens []engine.TokenID // raw frame; the others
	Cached int              // < Len()
	Blocks []BlockID        // raw frame
	Part   Part             // the last of the cached tokens, in a page of another sequence
	Known  int              // with Ask.PromptLogprobs: leading tokens of which these are not wanted; Cached < Known, if it is not 0
	Draw   int              // tokens generated so far, the last of Tokens; with the seed it fixes the draw
	Ask    engine.Ask
}

func (*TokenItem) item() {}

// Len is the number of tokens of the whole sequence.
func (t *TokenItem) Len() int { return t.From + len(t.Tokens) }

// At are the tokens of the sequence from one position to before another, which the item brings.
func (t *TokenItem) At(from, to int) []engine.TokenID { return t.Tokens[from-t.From : to-t.From] }

// Brings reports whether the item brings what it is to: the tokens to be computed, and those that its bans look at.
func (t *TokenItem) Brings() bool {
	return t.From >= 0 && t.From <= t.Cached && len(t.Generated()) >= min(t.Draw, t.Ask.Recalls())
}

// Generated are the last of the generated tokens, as many as the item brings.
func (t *TokenItem) Generated() []engine.TokenID { return t.Tokens[max(0, len(t.Tokens)-t.Draw):] }

// Part is the leading tokens of a page, fewer than it has room for; Tokens is 0 for none.
type Part struct {
	Block  BlockID
	Tokens int
}

// TensorItem computes what a job asks of its inputs.
type TensorItem struct{ engine.Tensors }

func (*TensorItem) item() {}

// Pause asks that a pass stop at its next boundary and keep its residual stream.
type Pause struct{ Pass PassID }

// Resume continues a paused pass.
type Resume struct{ Pass PassID }

// Abort drops a pass, running or paused, with no answer. Done or Paused may still cross it.
type Abort struct{ Pass PassID }

// Paused says that the pass stands still with its state kept. A pass that ended before the Pause
// came answers Done alone. An executor also says it of a pass that cannot begin yet, and of which nobody asked it:
// then the device is free for others, and once the pass is prepared there comes another Paused, or Done.
type Paused struct {
	Pass     PassID
	Share    float64 // of the pass that is done, 0..1; 0 if it is not told
	Prepares bool    // what the pass needs is being made beside the device
}

// Done ends a pass.
type Done struct {
	Pass  PassID
	Items []ItemResult  // in the order of Run.Items
	Took  time.Duration // time inside the runner
	Err   *engine.Error // the whole pass failed; Items is empty
}

// ItemResult answers one RunItem. Of a TokenOutput, Index and Cached are left to the scheduler.
type ItemResult struct {
	Job    engine.JobID
	Output engine.Output // nil with Err
	Err    *engine.Error
}
