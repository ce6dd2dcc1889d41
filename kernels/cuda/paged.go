package cuda

import (
	"encoding/binary"

	"github.com/prefillonly/prefillonly/kernels"
)

// Paged describes causal attention of several sequences in one call, over their blocks in place. A
// sequence's last query sees all its keys. Strides are in elements.
type Paged struct {
	Heads            kernels.Heads
	Scale            float32
	Window           int // as kernels.AttentionSpec has it
	QStride, OStride int // from row to row; heads lie side by side
	BlockTokens      int

	// Sequences of the call, and the most rows and keys of one.
	Batch, MaxRows, MaxKeys int
	// Where rows and blocks are counted from: V is K's block behind its keys' planes.
	Q, K, V, O Ptr
	Rows, Keys Ptr // [Batch] int32: queries and keys of each sequence, 0 for none
	Table      Ptr // [Batch][MaxKeys/BlockTokens] int32: each block's number, counted from K
	// [Batch+1] int64, ascending: the element of Q and of O where each sequence begins, and where the
	// last one ends.
	QOffset, OOffset Ptr
}

// shortest, shortRows and packs are the sizes of calls: few, for each is a plan to be compiled. A
// plan for more rows starts blocks of threads that find nothing to do; one for more keys costs memory
// of the table alone.
const (
	shortest     = 256
	shortRows    = 1024 // of segments that share a call
	shortestKeys = 8 << 10
)

var packs = [...]int{1, 8, 32}

// rowsBucket is the size of call for so many rows of a segment.
func rowsBucket(rows int) int {
	bucket := shortest
	for bucket < rows {
		if bucket == shortest {
			bucket = shortRows
		} else {
			bucket *= 2
		}
	}
	return bucket
}

func keysBucket(keys int) int {
	bucket := shortestKeys
	for bucket < keys {
		bucket *= 4
	}
	return bucket
}

func packBucket(segments int) int {
	for _, n := range packs {
		if segments <= n {
			return n
		}
	}
	return packs[len(packs)-1]
}

// runs divides segments into calls: short ones of one size share a call while their rows follow one
// another, for a call may write all rows from its first to its last.
func runs(segs []kernels.Segment) [][]kernels.Segment {
	var calls [][]kernels.Segment
	for _, s := range segs {
		if s.Rows == 0 {
			continue
		}
		if n := len(calls); n > 0 {
			call := calls[n-1]
			last := call[len(call)-1]
			if rowsBucket(s.Rows) <= shortRows && rowsBucket(s.Rows) == rowsBucket(last.Rows) && last.Row+last.Rows == s.Row && len(call) < packs[len(packs)-1] {
				calls[n-1] = append(call, s)
				continue
			}
		}
		calls = append(calls, []kernels.Segment{s})
	}
	return calls
}

// largestBlock bounds the blocks that are numbered by their addresses: see Alignment.
const largestBlock = 2 << 20

// InPlace says whether attention of this kind, over rows as models have them, reads blocks where they
// lie and needs no memory to gather them. It prepares what the device needs for that, which may take
// seconds.
func (b *Backend) InPlace(spec kernels.AttentionSpec, blockTokens int) bool {
	h := spec.Heads
	return spec.Cap == 0 && b.coversPaged(Paged{Heads: h, Scale: spec.Scale, Window: spec.Window, QStride: h.QKVCols(), OStride: h.Q * h.Dim, BlockTokens: blockTokens})
}

// pagedAttention runs attention over blocks in place if the device does that for the shape, and says whether
// it does. That depends on the shape of matrices and blocks alone, so that a row's bits do not depend
// on the rows.
func (b *Backend) pagedAttention(dst, qkv kernels.Mat, spec kernels.AttentionSpec, blockTokens int, segs []kernels.Segment) bool {
	p := Paged{Heads: spec.Heads, Scale: spec.Scale, Window: spec.Window, QStride: qkv.Stride, OStride: dst.Stride, BlockTokens: blockTokens}
	if !b.coversPaged(p) {
		return false
	}
	for _, s := range segs {
		if !b.fitsBlocks(s, blockTokens) {
			return true
		}
	}
	p.Q, p.O = at(qkv), at(dst)
	for _, call := range runs(segs) {
		if !b.uploadPagedTables(&p, call) {
			return true
		}
		b.device.Paged(p)
	}
	return true
}

// uploadPagedTables uploads the tables of a call.
func (b *Backend) uploadPagedTables(p *Paged, segs []kernels.Segment) bool {
	size := Ptr(b.KVBlockBytes(p.Heads, p.BlockTokens))
	rows, keys := 0, 0
	first := blockAddress(segs[0].Blocks[0])
	for _, s := range segs {
		rows, keys = max(rows, s.Rows), max(keys, s.Pos+s.Rows)
		for _, k := range s.Blocks[:blocksOf(s, p.BlockTokens)] {
			first = min(first, blockAddress(k))
		}
	}
	p.Batch, p.MaxRows, p.MaxKeys = packBucket(len(segs)), rowsBucket(rows), keysBucket(keys)
	t := make([]byte, p.tableBytes())
	row := func(i int) int { // where sequence i begins, or where the last one ends
		if i < len(segs) {
			return segs[i].Row
		}
		last := segs[len(segs)-1]
		return last.Row + last.Rows
	}
	for i := range p.Batch + 1 {
		binary.LittleEndian.PutUint64(t[p.QOffset:][8*i:], uint64(row(i)*p.QStride))
		binary.LittleEndian.PutUint64(t[p.OOffset:][8*i:], uint64(row(i)*p.OStride))
	}
	for i, s := range segs {
		binary.LittleEndian.PutUint32(t[p.Rows:][4*i:], uint32(s.Rows))
		binary.LittleEndian.PutUint32(t[p.Keys:][4*i:], uint32(s.Pos+s.Rows))
		for j, k := range s.Blocks[:blocksOf(s, p.BlockTokens)] {
			number, rest := (blockAddress(k)-first)/size, (blockAddress(k)-first)%size
			if rest != 0 || number >= maxBlocks {
				b.fail("blocks at %#x and %#x are not a number of blocks of %d bytes apart, below %d", uint64(first), uint64(blockAddress(k)), size, maxBlocks)
				return false
			}
			binary.LittleEndian.PutUint32(t[p.Table:][4*(i*p.MaxKeys/p.BlockTokens+j):], uint32(number))
		}
	}
	base := b.tables.allocBytes(b, int64(len(t)))
	if base == 0 {
		return false
	}
	for from := 0; from < len(t); from += uploadSlice {
		b.device.Upload(base+Ptr(from), t[from:min(len(t), from+uploadSlice)])
	}
	for _, at := range []*Ptr{&p.QOffset, &p.OOffset, &p.Rows, &p.Keys, &p.Table} {
		*at += base
	}
	p.K, p.V = first, first+size/2
	return true
}

// uploadSlice is what a GPU uploads without waiting for the work before it.
const uploadSlice = 64 << 10

// maxBlocks is cudnn.MaxPages; a test holds it to that.
const maxBlocks = 1 << 30

// tableBytes lays the tables out one after another, on addresses that are multiples of 16, and
// returns their size.
func (p *Paged) tableBytes() int {
	size := 0
	for _, t := range []struct {
		at    *Ptr
		bytes int
	}{
		{&p.QOffset, 8 * (p.Batch + 1)}, {&p.OOffset, 8 * (p.Batch + 1)}, {&p.Rows, 4 * p.Batch}, {&p.Keys, 4 * p.Batch},
		{&p.Table, 4 * p.Batch * (p.MaxKeys / p.BlockTokens)},
	} {
		*t.at = Ptr(size)
		size += (t.bytes + 15) &^ 15
	}
	return size
}
