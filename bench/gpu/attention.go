package main

import (
	"fmt"
	"math"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
)

// measureAttention measures causal attention of segments after prefixes: the built-in template alone, and
// what the backend does, which is cuDNN where it is there, or else that template on gathered blocks.
func (b *bench) measureAttention() error {
	h := b.model.attentionHeads()
	fmt.Fprintf(b.out, "Causal attention, %d heads over %d of %d, bfloat16, TFLOP/s.\n\n| rows | cached | template | ms | as served |\n|---|---|---|---|---|\n", h.Q, h.KV, h.Dim)
	for _, rows := range b.segments {
		for _, prefix := range b.prefixes {
			if err := b.attentionOf(h, rows, prefix); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) attentionOf(h kernels.Heads, rows, prefix int) error {
	blocks := (prefix + rows + block - 1) / block
	size := b.backend.KVBlockBytes(h, block)
	var buffers []kernels.Buffer
	for _, values := range []int{rows * h.QKVCols(), blocks * int(size) / 2, rows * h.Q * h.Dim} {
		buf, err := b.newRandomBuffer(fmt.Sprint("buffer ", len(buffers)), values)
		if err != nil {
			return err
		}
		defer buf.Free()
		buffers = append(buffers, buf)
	}
	qkv := kernels.Mat{Buf: buffers[0], Rows: rows, Cols: h.QKVCols(), Stride: h.QKVCols(), Type: kernels.BF16}
	dst := kernels.Mat{Buf: buffers[2], Rows: rows, Cols: h.Q * h.Dim, Stride: h.Q * h.Dim, Type: kernels.BF16}
	scale := float32(1 / math.Sqrt(float64(h.Dim)))
	planes := cuda.Address(buffers[1]) // the keys' planes, then the values'
	capacity := blocks * block
	f := cuda.Flash{
		Q: cuda.Address(buffers[0]), K: planes, V: planes + cuda.Ptr(2*h.KV*capacity*h.Dim), O: cuda.Address(buffers[2]),
		QStride: qkv.Stride, OStride: dst.Stride, KeyStride: h.Dim, HeadStride: capacity * h.Dim,
		Rows: rows, Keys: prefix + rows, Heads: h, Scale: scale,
	}
	if !b.device.Covers(f) {
		return fmt.Errorf("no template covers heads of %d", h.Dim)
	}
	alone, err := b.device.medianTime(b.runs, func() { b.device.Flash(f) })
	if err != nil {
		return err
	}
	segment := kernels.Segment{Rows: rows, Pos: prefix}
	for i := range blocks {
		segment.Blocks = append(segment.Blocks, kernels.KVBlock{Buf: buffers[1], Off: int64(i) * size})
	}
	served, err := b.device.medianTime(b.runs, func() {
		b.backend.Attention(dst, qkv, kernels.AttentionSpec{Heads: h, Scale: scale}, block, []kernels.Segment{segment})
	})
	if err != nil {
		return err
	}
	work := attentionFLOP(h, prefix, rows)
	fmt.Fprintf(b.out, "| %d | %d | %.4g | %.4g | %.4g |\n", rows, prefix, work/alone.Seconds()/1e12, alone.Seconds()*1e3, work/served.Seconds()/1e12)
	return nil
}
