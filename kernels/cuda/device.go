package cuda

import (
	"embed"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda/cudnn"
)

// Sources are those of the GPU kernels. A Go package that compiles them imports this one, so that it is built again when they change:
// the go command does not look at what C files include.
//
//go:embed src
var Sources embed.FS

// Ptr is an address in device memory.
type Ptr uint64

// Device is one GPU as the backend uses it: memory, launches of our kernels, and the two operations
// that libraries do. Calls are enqueued in order; Sync waits and returns the first failure.
// Device is implemented by the package driver, for real GPUs, and by simt, which runs the same kernel
// sources on the host.
type Device interface {
	Name() string
	Close()

	Memory() (free, total int64, err error)
	// Alloc returns zeroed memory, aligned as Alignment says.
	Alloc(bytes int64) (Ptr, error)
	Free(p Ptr)
	Upload(dst Ptr, src []byte)
	// UploadPinned enqueues a copy out of memory of Pinned, which must not change until done has returned:
	// it waits for the copy, and is called once.
	UploadPinned(dst Ptr, src []byte) (done func())
	Download(dst []byte, src Ptr)
	// Copy copies within the device's memory.
	Copy(dst, src Ptr, bytes int64)

	// Launch runs a kernel of src/ over grid blocks of so many threads. Every argument is one word:
	// an address, an integer, or the bits of a float32.
	Launch(kernel string, grid [2]int, threads int, args ...uint64)
	// Gemm is one matrix product.
	Gemm(g Gemm)
	// FP8 is what Gemm does with FP8 operands.
	FP8() FP8
	// Int8 is nil if Gemm multiplies n rows of k codes in int8, or says why not; n and k are multiples of 16.
	Int8(n, k int) error
	// Covers says whether Flash computes attention of these heads, QStride and OStride.
	Covers(f Flash) bool
	Flash(f Flash)
	// CoversPaged says whether Paged computes attention of these heads, strides, window and blocks; the
	// answer stays the same.
	CoversPaged(p Paged) bool
	Paged(p Paged)
	// Convolutions is a library for those that it covers, or nil.
	Convolutions() *cudnn.Convolutions

	Sync() error

	HostCopies
}

// Alignment is that of memory of so many bytes: the least power of two that holds it, from 256 bytes to
// 2 MiB. So blocks of a power of two up to that are a multiple of it apart, whatever they lie in.
func Alignment(bytes int64) int64 {
	alignment := int64(256)
	for alignment < bytes && alignment < largestBlock {
		alignment *= 2
	}
	return alignment
}

// Gemm describes D = A W^T + bias (+ D): A is [M, K] and W [N, K], of Type, sums are float32. Strides are in
// elements.
type Gemm struct {
	M, N, K    int
	Type       kernels.DType // BF16, or codes: F8E4M3 or I8
	A          Ptr
	AStride    int
	W          Ptr // dense
	Bias       Ptr // [N] bfloat16, with a bfloat16 D alone, or 0
	D          Ptr
	DStride    int
	DType      kernels.DType // BF16 or F32; D of I8 is int32
	Accumulate bool          // with F32: D += ...

	// Of codes, addresses and strides in bytes, N and K are multiples of 16. Sums of F8E4M3 are multiplied by float32
	// AScale[i] and WScale[j], or both are 0. Of I8, M is a multiple of Int8Rows and W of 256, and D is the sums, which are
	// exact, and nothing else.
	AScale, WScale Ptr
}

// Flash describes causal attention of Rows queries, the last of which sees all Keys. Strides are in
// elements, from row to row, from token to token and from head to head.
type Flash struct {
	Q, K, V, O            Ptr
	QStride, OStride      int
	KeyStride, HeadStride int // of K and V
	Rows, Keys            int
	Heads                 kernels.Heads
	Scale                 float32
}
