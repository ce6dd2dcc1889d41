//go:build cgo && linux && amd64

package cpu

/*
#include <stdlib.h>
#include "prefillonly_kernels.h"
*/
import "C"

import (
	"unsafe"

	"github.com/prefillonly/prefillonly/kernels"
)

// segmentArena is C memory for the segments of one call and their block addresses, since C structs
// that hold addresses of other Go memory cannot be passed.
type segmentArena struct {
	segments      unsafe.Pointer
	segmentsBytes uintptr
	blocks        unsafe.Pointer
	blocksBytes   uintptr
}

func (a *segmentArena) free() {
	C.free(a.segments)
	C.free(a.blocks)
	*a = segmentArena{}
}

// grow makes room for need bytes. They are zeroed, since the garbage collector's write barrier looks at
// what a pointer overwrites.
func grow(p *unsafe.Pointer, have *uintptr, need uintptr) {
	if need > *have {
		C.free(*p)
		*p, *have = C.calloc(2, C.size_t(need)), 2*need
	}
}

// segmentList writes the segments into the arena. It records an error where a segment's positions go
// beyond its blocks, its rows beyond the chunk, or a block beyond its buffer.
func (b *Backend) segmentList(op string, rows int, heads kernels.Heads, blockTokens int, segs []kernels.Segment) (*C.pf_segment, bool) {
	total := 0
	for _, s := range segs {
		if s.Row < 0 || s.Rows < 0 || s.Pos < 0 || s.Row+s.Rows > rows || max(s.Len, s.Pos+s.Rows) > len(s.Blocks)*blockTokens {
			b.fail("%s: segment of rows [%d, %d) of %d at position %d of %d with %d blocks of %d tokens", op, s.Row, s.Row+s.Rows, rows, s.Pos, s.Len, len(s.Blocks), blockTokens)
			return nil, false
		}
		total += len(s.Blocks)
	}
	a := &b.segments
	grow(&a.segments, &a.segmentsBytes, uintptr(len(segs))*C.sizeof_pf_segment)
	grow(&a.blocks, &a.blocksBytes, uintptr(total)*unsafe.Sizeof(uintptr(0)))
	list := unsafe.Slice((*C.pf_segment)(a.segments), len(segs))
	blocks := unsafe.Slice((*unsafe.Pointer)(a.blocks), total)
	bytes := b.KVBlockBytes(heads, blockTokens)
	next := 0
	for i, s := range segs {
		list[i] = C.pf_segment{row: C.int(s.Row), rows: C.int(s.Rows), pos: C.int(s.Pos), len: C.int(s.Len), blocks: (*unsafe.Pointer)(unsafe.Add(a.blocks, uintptr(next)*unsafe.Sizeof(uintptr(0))))}
		for _, block := range s.Blocks {
			if block.Off < 0 || block.Off+bytes > block.Buf.Bytes() {
				b.fail("%s: block ends at byte %d of a buffer of %d", op, block.Off+bytes, block.Buf.Bytes())
				return nil, false
			}
			blocks[next] = block.Buf.(*buffer).At(block.Off)
			next++
		}
	}
	return (*C.pf_segment)(a.segments), len(segs) > 0
}

// KVBlockBytes is the size of the layout described in prefillonly_kernels.h.
func (b *Backend) KVBlockBytes(h kernels.Heads, tokens int) int64 {
	return int64(C.pf_kv_bytes(C.int(tokens), C.int(h.Dim), C.int(h.KV)))
}

// StoreKV rotates queries in place and writes keys and values into the blocks.
func (b *Backend) StoreKV(qkv kernels.Mat, spec kernels.RopeSpec, blockTokens int, segs []kernels.Segment) {
	h := spec.Heads
	if !b.fits("StoreKV", "qkv", qkv, qkv.Rows, h.QKVCols(), kernels.BF16) {
		return
	}
	list, ok := b.segmentList("StoreKV", qkv.Rows, h, blockTokens, segs)
	if !ok {
		return
	}
	args := C.pf_store_kv_args{
		qkv: bf16(qkv), qkv_stride: C.size_t(qkv.Stride),
		q_heads: C.int(h.Q), kv_heads: C.int(h.KV), dim: C.int(h.Dim),
		eps: C.float(spec.Eps), block_tokens: C.int(blockTokens), segments: list, segment_count: C.int(len(segs)),
	}
	if !b.setNorms(&args, spec) {
		return
	}
	if r, ok := spec.Rope.(*rope); ok {
		for _, s := range segs {
			if s.Pos+s.Rows > r.max {
				b.fail("StoreKV: invalid position %d: want below %d", s.Pos+s.Rows-1, r.max)
				return
			}
		}
		args.rope_dim = C.int(r.dim)
		args.cosines, args.sines = r.cosines(), r.sines()
	}
	C.pf_store_kv(b.pool, b.isa, &args)
}

// setNorms sets those of queries and keys, which are both of each head or both of all.
func (b *Backend) setNorms(args *C.pf_store_kv_args, spec kernels.RopeSpec) bool {
	whole, err := spec.WholeNorms()
	if err != nil {
		b.fail("StoreKV: %w", err)
		return false
	}
	if whole {
		args.whole_norms = 1
	}
	args.q_norm, args.k_norm = normFloats(spec.QNorm), normFloats(spec.KNorm)
	return true
}

func normFloats(w kernels.Vector) *C.float {
	if w == nil {
		return nil
	}
	return w.(*vector).floats()
}

// Attention is exact and causal, tiled along absolute positions.
func (b *Backend) Attention(dst, qkv kernels.Mat, spec kernels.AttentionSpec, blockTokens int, segs []kernels.Segment) {
	b.attend("Attention", dst, qkv, spec, false, blockTokens, segs)
}

func (b *Backend) attend(op string, dst, qkv kernels.Mat, spec kernels.AttentionSpec, bothWays bool, blockTokens int, segs []kernels.Segment) {
	h := spec.Heads
	if !b.fits(op, "qkv", qkv, qkv.Rows, h.QKVCols(), kernels.BF16) || !b.fits(op, "dst", dst, qkv.Rows, h.Q*h.Dim, kernels.BF16) {
		return
	}
	list, ok := b.segmentList(op, qkv.Rows, h, blockTokens, segs)
	if !ok {
		return
	}
	args := C.pf_attention_args{
		qkv: bf16(qkv), qkv_stride: C.size_t(qkv.Stride), dst: bf16(dst), dst_stride: C.size_t(dst.Stride),
		q_heads: C.int(h.Q), kv_heads: C.int(h.KV), dim: C.int(h.Dim), scale: C.float(spec.Scale), window: C.int(spec.Window), cap: C.float(spec.Cap),
		block_tokens: C.int(blockTokens), segments: list, segment_count: C.int(len(segs)),
	}
	if bothWays {
		args.both_ways = 1
	}
	C.pf_attention(b.pool, b.isa, &args)
}
