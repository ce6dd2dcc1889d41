package sdpa

import "fmt"

// Attentions are what cuDNN computes on a device: nothing where it is not wanted, missing or too old.
type Attentions struct {
	library *Library // or nil
	shapes  map[Shape]*Attention
	note    func(string)
}

// OpenAttentions opens cuDNN as a backend's name asks: "cudnn" must have it, "flashinfer" does not
// look for it, and "auto", or no name, notes why it is not used.
func OpenAttentions(backend string, o Options) (*Attentions, error) {
	a := &Attentions{shapes: map[Shape]*Attention{}, note: o.Note}
	if a.note == nil {
		a.note = func(string) {}
	}
	if backend == "flashinfer" {
		return a, nil
	}
	var err error
	a.library, err = Open(o)
	switch {
	case err == nil:
		a.note("cuDNN " + a.library.Version() + " for attention")
	case backend == "cudnn":
		return nil, fmt.Errorf("attention-backend cudnn: %w; install nvidia-cudnn-cu13 where the loader finds it, or take auto", err)
	default:
		a.note(fmt.Sprintf("attention by the built-in FlashInfer kernels: %v", err))
	}
	return a, nil
}

// Close frees the plans and closes the library.
func (a *Attentions) Close() {
	for _, of := range a.shapes {
		if of != nil {
			of.Close()
		}
	}
	if a.library != nil {
		a.library.Close()
	}
}

// typical is the bucket that a shape's kernel is chosen for: a chunk of a long prompt.
var typical = Bucket{Batch: 1, Rows: 4096, Keys: 32768}

// Covers says whether cuDNN computes attention of this shape. The first time it compiles a plan and
// has trial use it, with Run; a refusal of either is noted, and the answer stays the same.
func (a *Attentions) Covers(s Shape, trial func() error) bool {
	if a.library == nil {
		return false
	}
	if of, known := a.shapes[s]; known {
		return of != nil
	}
	of, err := a.library.Attention(s, typical)
	a.shapes[s] = of
	if err == nil {
		if err = trial(); err != nil {
			of.Close()
			a.shapes[s] = nil
		}
	}
	if err != nil {
		a.note(fmt.Sprintf("no attention by cuDNN %s for %+v: %v", a.library.Version(), s, err))
		return false
	}
	a.note("attention by cuDNN's " + of.Kernel())
	return true
}

// Run enqueues a call of a shape that is covered; c's workspace has so many bytes.
func (a *Attentions) Run(s Shape, b Bucket, c Call, workspace int64) error {
	plan, err := a.shapes[s].Plan(b)
	if err != nil {
		return fmt.Errorf("%w; start again with attention-backend flashinfer", err)
	}
	if need := plan.Workspace(); need > workspace {
		return fmt.Errorf("cuDNN wants a workspace of %d bytes for %+v, and %d are set aside; start again with attention-backend flashinfer", need, b, workspace)
	}
	return plan.Run(c)
}
