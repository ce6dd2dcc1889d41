package cudnn

import (
	"runtime"
	"unsafe"
)

// AttentionOptions say where plans are kept, and for which device.
type AttentionOptions struct {
	// Device tells devices apart whose plans differ, in the names of files.
	Device string
	// Dir keeps plans from one run to the next; empty: they are compiled anew.
	Dir string
	// Note is told what slows down but does not stop, for the log.
	Note func(string)
}

// AttentionShape is what a model's attention has in all calls. Queries and outputs are rows, heads side by
// side; keys and values lie in pages [KVHeads][PageTokens][Dim] of keys and then of values. All is
// bfloat16, strides are in elements.
type AttentionShape struct {
	QHeads, KVHeads, Dim int
	QStride, OStride     int // from row to row
	PageTokens           int
	Window               int // a query sees itself and the Window-1 keys before it; 0: all before it
}

// AttentionBucket is what a plan is compiled for: so many sequences in a call, and the most rows and keys of
// one. Keys is a multiple of the pages' tokens.
type AttentionBucket struct{ Batch, Rows, Keys int }

// AttentionPlan is a compiled kernel with the arguments of its bucket.
type AttentionPlan struct {
	*Plan
	window int
}

// AttentionCall is one run's arguments: addresses in device memory, multiples of 16. Of a plan for Batch sequences of at most
// Keys keys, Rows and Keys hold Batch int32 each, how many queries and keys a sequence has (0 for
// none); its last query sees all its keys. Table holds Batch rows of Keys/PageTokens int32: the number
// of each page, counted from K for its keys and from V for its values. QOffset and OOffset hold
// Batch+1 int64: the element of Q and of O where a sequence begins, ascending, and where the last ends.
type AttentionCall struct {
	Q, K, V, O       uint64
	Rows, Keys       uint64
	Table            uint64
	QOffset, OOffset uint64
	Workspace        uint64
	Scale            float32
}

// MaxPages bounds the numbers in AttentionCall.Table.
const MaxPages = 1 << 30

// callNumbers are those of a call that lie in host memory while it is enqueued.
type callNumbers struct {
	scale, masked float32
	window        int32
}

// Run enqueues attention on the stream.
func (p *AttentionPlan) Run(c AttentionCall) error {
	n := &callNumbers{c.Scale, maskedScore, int32(p.window)}
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
