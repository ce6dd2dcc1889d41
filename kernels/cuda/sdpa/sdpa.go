// Package sdpa computes causal attention over paged keys and values by cuDNN's graph interface, which
// it opens at run time; plans are kept in memory and on disk.
//
// It has not run on a GPU yet. `make check-cudnn` compiles plans without one; of Llama-3.1-8B's shape,
// 32 heads of 128 over 8 in blocks of 64, in 27 sizes of call each, it gave:
//
//	cuDNN    GPU          engine  kernel                              tile of queries x keys
//	9.19.0   A100, L4     1       sm80_flash_fprop_wmma_f16_knob_3    64 x 64
//	9.19.0   H100         2       sm90_flash_fprop_wgmma_f16_knob_7   64 x 128
//	9.28.0   A100, L4     8       sm80_flash_fprop_wmma_f16_knob_1    64 x 64
//	9.28.0   H100         9       sm90_flash_fprop_wgmma_f16_knob_1   64 x 128
//
// The machine code of all 27 is the same. A plan compiles in 0.3 to 1.6 s on two busy cores and is
// restored in less than 0.1 s.
package sdpa

import (
	"runtime"
	"unsafe"

	"github.com/prefillonly/prefillonly/kernels/cuda/cudnn"
)

// Options say where plans are kept, and for which device.
type Options struct {
	// Device tells devices apart whose plans differ, in the names of files.
	Device string
	// Dir keeps plans from one run to the next; empty: they are compiled anew.
	Dir string
	// Note is told what slows down but does not stop, for the log.
	Note func(string)
}

// Shape is what a model's attention has in all calls. Queries and outputs are rows, heads side by
// side; keys and values lie in pages [KVHeads][PageTokens][Dim] of keys and then of values. All is
// bfloat16, strides are in elements.
type Shape struct {
	QHeads, KVHeads, Dim int
	QStride, OStride     int // from row to row
	PageTokens           int
	Window               int // a query sees itself and the Window-1 keys before it; 0: all before it
}

// Bucket is what a plan is compiled for: so many sequences in a call, and the most rows and keys of
// one. Keys is a multiple of the pages' tokens.
type Bucket struct{ Batch, Rows, Keys int }

// Plan is a compiled kernel with the arguments of its bucket.
type Plan struct {
	*cudnn.Plan
	window int
}

// Call is one run's arguments: addresses in device memory, multiples of 16. Of a plan for Batch sequences of at most
// Keys keys, Rows and Keys hold Batch int32 each, how many queries and keys a sequence has (0 for
// none); its last query sees all its keys. Table holds Batch rows of Keys/PageTokens int32: the number
// of each page, counted from K for its keys and from V for its values. QOffset and OOffset hold
// Batch+1 int64: the element of Q and of O where a sequence begins, ascending, and where the last ends.
type Call struct {
	Q, K, V, O       uint64
	Rows, Keys       uint64
	Table            uint64
	QOffset, OOffset uint64
	Workspace        uint64
	Scale            float32
}

// MaxPages bounds the numbers in Call.Table.
const MaxPages = 1 << 30

// numbers are those of a call that lie in host memory while it is enqueued.
type numbers struct {
	scale, masked float32
	window        int32
}

// Run enqueues attention on the stream.
func (p *Plan) Run(c Call) error {
	n := &numbers{c.Scale, maskedScore, int32(p.window)}
	var pinned runtime.Pinner
	pinned.Pin(n)
	defer pinned.Unpin()
	host := func(at unsafe.Pointer) uint64 { return uint64(uintptr(at)) }
	uids := []int64{uidQ, uidK, uidV, uidO, uidScale, uidRows, uidKeys, uidTable, uidQOffset, uidOOffset, uidMasked, uidWindow}
	addresses := []uint64{
		c.Q, c.K, c.V, c.O, host(unsafe.Pointer(&n.scale)), c.Rows, c.Keys, c.Table, c.QOffset, c.OOffset, host(unsafe.Pointer(&n.masked)),
		host(unsafe.Pointer(&n.window)),
	}
	count := len(uids)
	if p.window == 0 {
		count--
	}
	return p.Plan.Run(uids[:count], addresses[:count], c.Workspace)
}
