package cudnn

import (
	"fmt"
)

// Attentions are what cuDNN computes on a device: nothing where it is not wanted, missing or too old.
type Attentions struct {
	library *Library // or nil
	options AttentionOptions
	shapes  map[AttentionShape]*Attention
}

// OpenAttentions opens cuDNN as a backend's name asks: "cudnn" must have it, "flashinfer" does not
// look for it, and "auto", or no name, notes why it is not used.
func OpenAttentions(backend string, source *Source, o AttentionOptions) (*Attentions, error) {
	if o.Note == nil {
		o.Note = func(string) {}
	}
	a := &Attentions{options: o, shapes: map[AttentionShape]*Attention{}}
	if backend == "flashinfer" {
		return a, nil
	}
	var err error
	a.library, err = source.Library()
	switch {
	case err == nil:
		o.Note("cuDNN " + a.library.Version() + " for attention")
	case backend == "cudnn":
		return nil, fmt.Errorf("attention-backend cudnn: %w; install nvidia-cudnn-cu13 where the loader finds it, or take auto", err)
	default:
		o.Note(fmt.Sprintf("attention by the built-in FlashInfer kernels: %v", err))
	}
	return a, nil
}

// Close frees the plans, before the library is closed.
func (a *Attentions) Close() {
	for _, of := range a.shapes {
		if of != nil {
			of.Close()
		}
	}
}

// typicalBucket is the bucket that a shape's kernel is chosen for: a chunk of a long prompt.
var typicalBucket = AttentionBucket{Batch: 1, Rows: 4096, Keys: 32768}

// Covers says whether cuDNN computes attention of this shape. The first time it compiles a plan and
// has trial use it, with Run; a refusal of either is noted, and the answer stays the same.
func (a *Attentions) Covers(s AttentionShape, trial func() error) bool {
	if a.library == nil {
		return false
	}
	if of, known := a.shapes[s]; known {
		return of != nil
	}
	of, err := NewAttention(a.library, a.options, s, typicalBucket)
	a.shapes[s] = of
	if err == nil {
		if err = trial(); err != nil {
			of.Close()
			a.shapes[s] = nil
		}
	}
	if err != nil {
		a.options.Note(fmt.Sprintf("no attention by cuDNN %s for %+v: %v", a.library.Version(), s, err))
		return false
	}
	a.options.Note("attention by cuDNN's " + of.Kernel())
	return true
}

// Run enqueues a call of a shape that is covered; c's workspace has so many bytes.
func (a *Attentions) Run(s AttentionShape, b AttentionBucket, c AttentionCall, workspace int64) error {
	plan, err := a.shapes[s].Plan(b)
	if err != nil {
		return fmt.Errorf("%w; start again with attention-backend flashinfer", err)
	}
	if need := plan.Workspace(); need > workspace {
		return fmt.Errorf("cuDNN wants a workspace of %d bytes for %+v, and %d are set aside; start again with attention-backend flashinfer", need, b, workspace)
	}
	return plan.Run(c)
}
