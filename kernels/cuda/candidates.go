package cuda

import "github.com/prefillonly/prefillonly/kernels/cuda/cudnn"

// Candidate is a way to compute that stands beside kernels of our own which compute the same, and that no GPU has measured yet. A Backend
// asks its device for one in this file and nowhere else: what a measurement decides is a change here, and the deletion of what is named.
// Whatever is measured, a candidate is tried against our own kernels before its first use, and refused where results differ.
type Candidate int

// The candidates.
const (
	// PagedAttention is cuDNN's attention over blocks where they lie (Device.Paged, cudnn.Attentions). It stays if `make bench-cuda` has it at
	// least as fast as FlashAttention for chunks of 4096 rows after 0 to 120k keys, and prompts as a whole no slower. cuDNN 9.19 and 9.20 need a
	// description of their own (cudnn/attention_composite.go), which goes once machines with GPUs have 9.21.
	PagedAttention Candidate = iota
	// FlashAttention is FlashInfer's templates over gathered blocks (Device.Flash): what there is without cuDNN. It stays if `make bench-cuda`
	// has it faster than the general kernel pf_attention, which is simple and computes every shape.
	FlashAttention
	// LibraryConvolutions is cuDNN's convolutions in float32 without tensor cores (cudnn.Convolutions, library.go, window.go, trial.go). It stays
	// if BenchmarkGPUConvolutions of the driver, over a detector's kinds, has it at least twice as fast as pf_conv.
	LibraryConvolutions
	candidates
)

// disabled are the candidates that a Backend does without.
type disabled [candidates]bool

func disable(list []Candidate) (d disabled) {
	for _, c := range list {
		d[c] = true
	}
	return d
}

// coversPaged says whether attention is PagedAttention: blocks can be numbered, and the device takes them in place.
func (b *Backend) coversPaged(p Paged) bool {
	size := b.KVBlockBytes(p.Heads, p.BlockTokens)
	return !b.disabled[PagedAttention] && size <= largestBlock && size&(size-1) == 0 && b.device.CoversPaged(p)
}

// coversFlash says whether attention that is not PagedAttention is FlashAttention.
func (b *Backend) coversFlash(f Flash, window int) bool {
	return !b.disabled[FlashAttention] && window == 0 && b.device.Covers(f)
}

// convolutions is the library of LibraryConvolutions, or nil.
func (b *Backend) convolutions() *cudnn.Convolutions {
	if b.disabled[LibraryConvolutions] {
		return nil
	}
	return b.device.Convolutions()
}
