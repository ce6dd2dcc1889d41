package cuda

import "github.com/prefillonly/prefillonly/kernels"

// flashAttention runs the device's template if it covers the shape, and says whether it does. That depends on
// the shape of the matrices alone and not on the rows, so that a row's bits do not either.
func (b *Backend) flashAttention(dst, qkv kernels.Mat, spec kernels.AttentionSpec, blockTokens int, segs []kernels.Segment) bool {
	h := spec.Heads
	f := Flash{QStride: qkv.Stride, OStride: dst.Stride, KeyStride: h.Dim, Heads: h, Scale: spec.Scale}
	if !b.coversFlash(f, spec.Window) {
		return false
	}
	t, ok := b.uploadTables(segs, blockTokens)
	if !ok {
		return true
	}
	capacity := 0
	for _, s := range segs {
		capacity = max(capacity, blocksOf(s, blockTokens)*blockTokens)
	}
	f.HeadStride = capacity * h.Dim
	plane := Ptr(2 * h.KV * f.HeadStride)
	f.K = b.gathered.allocBytes(b, 2*int64(plane))
	if f.K == 0 {
		return true
	}
	f.V = f.K + plane
	var held []kernels.KVBlock // whose tokens are in the gathered planes
	table := t.tableAt
	for _, s := range segs {
		if s.Rows > 0 {
			wanted := s.Blocks[:blocksOf(s, blockTokens)]
			b.gatherBlocks(f.K, table, sameBlocks(held, wanted), len(wanted), capacity, blockTokens, h)
			held = wanted
			f.Q, f.O = at(qkv.Slice(s.Row, s.Row+s.Rows)), at(dst.Slice(s.Row, s.Row+s.Rows))
			f.Rows, f.Keys = s.Rows, s.Pos+s.Rows
			b.device.Flash(f)
		}
		table += Ptr(8 * len(s.Blocks))
	}
	return true
}

// blocksOf is how many blocks a segment's tokens reach into.
func blocksOf(s kernels.Segment, blockTokens int) int {
	return (s.Pos + s.Rows + blockTokens - 1) / blockTokens
}

// sameBlocks is the number of first blocks that both lists have: segments over one cached prefix
// share it.
func sameBlocks(a, b []kernels.KVBlock) int {
	n := 0
	for n < min(len(a), len(b)) && blockAddress(a[n]) == blockAddress(b[n]) {
		n++
	}
	return n
}

// gatherBlocks enqueues the copy of blocks [from, to) of the table.
func (b *Backend) gatherBlocks(dst, table Ptr, from, to, capacity, blockTokens int, h kernels.Heads) {
	if from < to {
		b.device.Launch("pf_gather_kv", [2]int{to - from, 2 * h.KV}, block,
			uint64(dst), uint64(table), uint64(from), uint64(capacity), uint64(blockTokens), uint64(h.Dim))
	}
}
