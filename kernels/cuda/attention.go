package cuda

import (
	"encoding/binary"

	"github.com/prefillonly/prefillonly/kernels"
)

// attentionKeys and maxHeadDim are KEYS and MAX_DIM of src/attention.cu.
const (
	attentionKeys = 128
	maxHeadDim    = 256
)

// fitsBlocks says whether a segment's blocks reach its last position.
func (b *Backend) fitsBlocks(s kernels.Segment, blockTokens int) bool {
	if s.Pos < 0 || s.Pos+s.Rows > len(s.Blocks)*blockTokens {
		b.fail("positions %d to %d do not fit in %d blocks of %d tokens", s.Pos, s.Pos+s.Rows-1, len(s.Blocks), blockTokens)
		return false
	}
	return true
}

// launchTables are the segments (struct pf_segment) and block addresses of a launch, on the device.
type launchTables struct {
	entries, segments  int
	segmentAt, tableAt Ptr
}

// uploadTables makes the tables of segs; ok is false when there is nothing to launch.
func (b *Backend) uploadTables(segs []kernels.Segment, blockTokens int) (t launchTables, ok bool) {
	var raw, addresses []byte
	table := 0
	for _, s := range segs {
		if !b.fitsBlocks(s, blockTokens) {
			return t, false
		}
		for _, v := range [...]int{t.entries, s.Row, s.Pos, table} {
			raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
		}
		for _, k := range s.Blocks {
			addresses = binary.LittleEndian.AppendUint64(addresses, uint64(blockAddress(k)))
		}
		t.entries += s.Rows
		table += len(s.Blocks)
	}
	if t.entries == 0 {
		return t, false
	}
	t.segments = len(segs)
	t.segmentAt = b.tables.allocBytes(b, int64(len(raw)+len(addresses)))
	if t.segmentAt == 0 {
		return t, false
	}
	t.tableAt = t.segmentAt + Ptr(len(raw))
	b.device.Upload(t.segmentAt, append(raw, addresses...))
	return t, true
}

func blockAddress(k kernels.KVBlock) Ptr { return k.Buf.(*buffer).at + Ptr(k.Off) }

// StoreKV launches a warp a head of each row.
func (b *Backend) StoreKV(qkv kernels.Mat, spec kernels.RopeSpec, blockTokens int, segs []kernels.Segment) {
	angles := spec.Rope.(*rope)
	for _, s := range segs {
		if s.Pos+s.Rows > angles.max {
			b.fail("position %d is outside the rotary table of %d", s.Pos+s.Rows-1, angles.max)
			return
		}
	}
	t, ok := b.uploadTables(segs, blockTokens)
	if !ok {
		return
	}
	h := spec.Heads
	whole, err := spec.WholeNorms()
	if err != nil {
		b.fail("%w", err)
		return
	}
	if whole {
		b.device.Launch("pf_norm_heads", [2]int{t.entries, 2}, block, uint64(at(qkv)), uint64(qkv.Stride), uint64(t.segmentAt), uint64(t.segments),
			vectorArg(spec.QNorm), vectorArg(spec.KNorm), uint64(h.Q*h.Dim), uint64(h.KV*h.Dim), floatArg(spec.Eps))
		spec.QNorm, spec.KNorm = nil, nil
	}
	b.device.Launch("pf_store_kv", [2]int{t.entries, h.Q + 2*h.KV}, 32,
		uint64(at(qkv)), uint64(qkv.Stride), uint64(t.segmentAt), uint64(t.segments), uint64(t.tableAt),
		uint64(angles.cos.(*buffer).at), uint64(angles.sin.(*buffer).at), vectorArg(spec.QNorm), vectorArg(spec.KNorm),
		uint64(h.Q), uint64(h.KV), uint64(h.Dim), uint64(blockTokens), floatArg(spec.Eps))
}

// vectorArg is a vector's address, or 0 for none.
func vectorArg(v kernels.Vector) uint64 {
	if v == nil {
		return 0
	}
	return uint64(v.(*vector).at())
}

// Attention asks the device for attention over blocks in place, then for its templates, and runs the
// general kernel for other shapes and for scores that are capped, which neither does.
func (b *Backend) Attention(dst, qkv kernels.Mat, spec kernels.AttentionSpec, blockTokens int, segs []kernels.Segment) {
	h := spec.Heads
	if h.Dim > maxHeadDim {
		b.fail("head dimension %d exceeds %d", h.Dim, maxHeadDim)
		return
	}
	if spec.Cap == 0 && (b.pagedAttention(dst, qkv, spec, blockTokens, segs) || b.flashAttention(dst, qkv, spec, blockTokens, segs)) {
		return
	}
	t, ok := b.uploadTables(segs, blockTokens)
	if !ok {
		return
	}
	b.device.Launch("pf_attention", [2]int{t.entries, h.Q}, attentionKeys,
		uint64(at(dst)), uint64(dst.Stride), uint64(at(qkv)), uint64(qkv.Stride), uint64(t.segmentAt), uint64(t.segments), uint64(t.tableAt),
		uint64(h.Q), uint64(h.KV), uint64(h.Dim), uint64(blockTokens), floatArg(spec.Scale), uint64(spec.Window), floatArg(spec.Cap))
}
