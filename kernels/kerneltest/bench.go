package kerneltest

import (
	"fmt"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/kernels"
)

// Bench measures the operations that have no library to compare with, at the shapes of Qwen2.5-0.5B
// (14/2 heads of 64) and Llama-3.1-8B (32/8 heads of 128): GFLOP/s of the fastest run, and for attention
// its ratio to the backend's own matrix product of 512 x 896 x 4864.
func Bench(b *testing.B, open Open) {
	small, large := kernels.Heads{Q: 14, KV: 2, Dim: 64}, kernels.Heads{Q: 32, KV: 8, Dim: 128}
	lone := kernels.Heads{Q: 14, KV: 14, Dim: 64} // a KV head for each query head
	for _, c := range []struct {
		heads      kernels.Heads
		rows, keys int
	}{
		{small, 512, 512},
		{small, 512, 2048},
		{small, 512, 8192},
		{small, 512, 32768},
		{small, 150, 14336},
		{small, 1, 14336},
		{large, 512, 2048},
		{large, 512, 8192},
		{large, 512, 32768},
		{large, 1, 14336},
	} {
		name := fmt.Sprintf("%d-%dx%d/%d-rows-%d-keys", c.heads.Q, c.heads.KV, c.heads.Dim, c.rows, c.keys)
		b.Run("Attention/"+name, func(b *testing.B) { benchAttention(b, open, c.heads, 1, c.rows, c.keys) })
	}
	for _, heads := range []kernels.Heads{small, large, lone} {
		name := fmt.Sprintf("Attention/%d-%dx%d/", heads.Q, heads.KV, heads.Dim)
		b.Run(name+"20-prompts-of-20-rows-share-4096-keys", func(b *testing.B) { benchAttention(b, open, heads, 20, 20, 4116) })
		b.Run(name+"64-prompts-of-3-rows-share-4096-keys", func(b *testing.B) { benchAttention(b, open, heads, 64, 3, 4116) })
		b.Run(name+"400-rows-4496-keys", func(b *testing.B) { benchAttention(b, open, heads, 1, 400, 4496) })
	}
	for _, heads := range []kernels.Heads{small, large} {
		b.Run(fmt.Sprintf("StoreKV/%d-%dx%d", heads.Q, heads.KV, heads.Dim), func(b *testing.B) { benchStoreKV(b, open, heads) })
	}
	b.Run("Logits", func(b *testing.B) { benchLogits(b, open) })
}

// Shortest is the time of the fastest run, with what the backend still does after it, while there is more to
// run: b.Loop, or For some time.
func Shortest(t testing.TB, more func() bool, on kernels.Backend, run func()) time.Duration {
	best := time.Duration(1<<63 - 1)
	timed := func() {
		start := time.Now()
		run()
		if err := on.Sync(); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(start))
	}
	timed()
	for more() {
		timed()
	}
	return best
}

// For says for so long that there is more to run.
func For(long time.Duration) (more func() bool) {
	end := time.Now().Add(long)
	return func() bool { return time.Now().Before(end) }
}

// Gigaflops is a rate per second.
func Gigaflops(flops float64, t time.Duration) float64 { return flops / float64(t.Nanoseconds()) }

// matmulRate is the rate of a plain product, measured for a fifth of a second.
func matmulRate(d *fixture) float64 {
	const rows, in, out = 512, 896, 4864
	l, _, _ := d.OutputLinear(kernels.BF16, in, false, out)
	src, x := d.Mat(d.ActType(), rows, in, d.Normal(rows*in, 1)), d.Mat(kernels.F32, rows, out, make([]float64, rows*out))
	best := Shortest(d.T, For(200*time.Millisecond), d, func() { d.AddLinear(x, src, l) })
	return Gigaflops(2*rows*in*out, best)
}

// filledBlocks are blocks with room for so many tokens, full of small numbers.
func filledBlocks(d *fixture, h kernels.Heads, blockTokens, tokens int) []kernels.KVBlock {
	bytes := d.KVBlockBytes(h, blockTokens)
	content := Encode(d.ActType(), d.Normal(int(bytes/d.ActType().Size()), 1))
	blocks := make([]kernels.KVBlock, (tokens+blockTokens-1)/blockTokens)
	buf := d.MustAlloc(bytes * int64(len(blocks)))
	for i := range blocks {
		blocks[i] = kernels.KVBlock{Buf: buf, Off: bytes * int64(i)}
		d.Write(buf, blocks[i].Off, content)
	}
	return blocks
}

// benchAttention has prompts of so many rows each, which are their last tokens of so many; they share the blocks before the one
// in which their rows begin.
func benchAttention(b *testing.B, open Open, h kernels.Heads, prompts, rows, keys int) {
	const blockTokens = 64
	d := newFixture(b, open(b))
	qkv := d.Mat(d.ActType(), prompts*rows, h.QKVCols(), d.Normal(prompts*rows*h.QKVCols(), 1))
	dst := d.Mat(d.ActType(), prompts*rows, h.Q*h.Dim, nil)
	shared := (keys - rows) / blockTokens * blockTokens
	own := (keys - shared + blockTokens - 1) / blockTokens
	blocks := filledBlocks(d, h, blockTokens, shared+prompts*own*blockTokens)
	var segs []kernels.Segment
	for i := range prompts {
		list := append(blocks[:shared/blockTokens:shared/blockTokens], blocks[shared/blockTokens+i*own:][:own]...)
		segs = append(segs, kernels.Segment{Row: i * rows, Rows: rows, Pos: keys - rows, Blocks: list})
	}
	spec := kernels.AttentionSpec{Heads: h, Scale: 0.1}
	matmul := matmulRate(d)
	best := Shortest(b, b.Loop, d, func() { d.Attention(dst, qkv, spec, blockTokens, segs) })
	seen := float64(prompts) * (float64(rows)*float64(keys-rows) + float64(rows)*float64(rows+1)/2)
	rate := Gigaflops(4*float64(h.Q*h.Dim)*seen, best)
	b.ReportMetric(rate, "GFLOP/s")
	b.ReportMetric(rate/matmul, "of-matmul")
	if rows == 1 {
		b.ReportMetric(float64(d.KVBlockBytes(h, blockTokens))*float64(len(segs[0].Blocks))/float64(best.Nanoseconds()), "GB/s")
	}
}

func benchStoreKV(b *testing.B, open Open, h kernels.Heads) {
	const rows, blockTokens = 512, 64
	r := newAttentionRun(newFixture(b, open(b)), attentionCase{heads: h, blockTokens: blockTokens})
	qkv := r.Mat(r.ActType(), rows, h.QKVCols(), r.Normal(rows*h.QKVCols(), 1))
	segs := []kernels.Segment{{Rows: rows, Blocks: filledBlocks(r.fixture, h, blockTokens, rows)}}
	best := Shortest(b, b.Loop, r, func() { r.StoreKV(qkv, r.spec, blockTokens, segs) })
	b.ReportMetric(float64(best.Nanoseconds())/rows, "ns/token")
}

func benchLogits(b *testing.B, open Open) {
	const vocabulary, hidden = 32000, 896
	d := newFixture(b, open(b))
	table, _ := d.Table(kernels.BF16, vocabulary, hidden)
	norm, _ := d.NormWeight(hidden)
	x, dst := d.Mat(kernels.F32, 1, hidden, d.Normal(hidden, 1)), d.Mat(kernels.F32, 1, vocabulary, nil)
	best := Shortest(b, b.Loop, d, func() { d.Logits(dst, x, rootMean(norm), table, nil) })
	b.ReportMetric(vocabulary*hidden*2/float64(best.Nanoseconds()), "GB/s")
}
