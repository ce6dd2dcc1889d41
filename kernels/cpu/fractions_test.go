//go:build cgo && linux && amd64

package cpu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/cpu/raw"
)

// yardsticks are the instructions whose rate bounds the products of each instruction set, with weights in bfloat16 and
// in int8. AVX2 has none of its own for int8.
var yardsticks = map[string][2]raw.Instruction{
	"avx2": {raw.VFMADD8, raw.VFMADD8}, "avx512": {raw.VFMADD16, raw.VPDPBUSD}, "avx512_bf16": {raw.VDPBF16PS, raw.VPDPBUSD},
	"amx": {raw.TDPBF16PS, raw.TDPBSSD},
}

// BenchmarkOfRaw reports what fraction of the raw rate of its instruction each operation reaches: the
// layers of Qwen2.5-0.5B's shape, their weights coming from memory as in a model of 24 layers, and attention
// of 512 rows over more keys. Every sample stands between two samples of the raw loop, so that clock and
// neighbours do not matter; of-raw is the median of the ratios, of-raw-best the ratio of the best rates.
func BenchmarkOfRaw(b *testing.B) {
	for _, isa := range slices.Backward(cpu.ISAs) {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/threads=%d", isa, threads), func(b *testing.B) {
				backend, err := cpu.New(cpu.Config{Threads: threads, ISA: isa})
				if err != nil {
					b.Skip(err)
				}
				b.Cleanup(backend.Close)
				of := yardsticks[isa]
				m := &measurement{Backend: backend, instruction: of[0], threads: threads}
				m.linears(b, tensor)
				m.attentions(b)
				if m.instruction = of[1]; of[1] != of[0] && of[1].Supported() {
					b.Run("Int8", func(b *testing.B) { m.linears(b, quantised(kernels.I8, false)) })
				}
			})
		}
	}
}

// measurement is a backend and the instruction that bounds it.
type measurement struct {
	*cpu.Backend
	instruction raw.Instruction
	threads     int
}

// run samples an operation of so many FLOP, and reports bytes a nanosecond where it reads a known number.
func (m *measurement) run(b *testing.B, flop, bytes float64, op func()) {
	const shortest = 2 * time.Millisecond
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var rates, rawRates, ratios []float64
	op()
	before := m.instruction.Rate(m.threads)
	for b.Loop() {
		start, runs := m.now(b), 0
		for ; m.now(b)-start < shortest; runs++ {
			op()
		}
		rate := flop * float64(runs) / float64((m.now(b) - start).Nanoseconds())
		after := m.instruction.Rate(m.threads)
		rates, rawRates = append(rates, rate), append(rawRates, after)
		ratios = append(ratios, 2*rate/(before+after))
		before = after
	}
	if err := m.Sync(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(median(rates), "GFLOP/s")
	b.ReportMetric(slices.Max(rates), "GFLOP/s-best")
	b.ReportMetric(median(rawRates), "raw")
	b.ReportMetric(median(ratios), "of-raw")
	b.ReportMetric(slices.Max(rates)/slices.Max(rawRates), "of-raw-best")
	if bytes > 0 {
		b.ReportMetric(bytes/flop*median(rates), "GB/s")
	}
}

// now is processor time where one thread computes, which others' use of the machine does not lengthen.
func (m *measurement) now(b *testing.B) time.Duration {
	if m.threads == 1 {
		return threadTime(b)
	}
	return time.Since(begin)
}

var begin = time.Now()

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// linears runs each product of a layer, and all of them, through 24 layers in turn.
func (m *measurement) linears(b *testing.B, make func(rows, cols int) kernels.HostTensor) {
	var layers []*layer
	for range 24 {
		layers = append(layers, newLayer(b, m.Backend, make))
	}
	for _, c := range []struct {
		name string
		out  int // of all products, at an input of `hidden`
		run  func(l *layer, r *residuals)
	}{
		{"QKV", qkvOut, func(l *layer, r *residuals) {
			m.NormLinear(r.wide, r.x, kernels.Norm{Weight: l.norm, Eps: 1e-6}, l.qkv)
		}},
		{"O", hidden, func(l *layer, r *residuals) { m.AddLinear(r.x, r.narrow, l.o) }},
		{"MLP", 3 * inter, func(l *layer, r *residuals) {
			m.MLP(r.x, kernels.Norm{Weight: l.norm, Eps: 1e-6}, kernels.SiLU, l.gated, l.down)
		}},
		{"Layer", qkvOut + hidden + 3*inter, func(l *layer, r *residuals) {
			m.NormLinear(r.wide, r.x, kernels.Norm{Weight: l.norm, Eps: 1e-6}, l.qkv)
			m.AddLinear(r.x, r.narrow, l.o)
			m.MLP(r.x, kernels.Norm{Weight: l.norm, Eps: 1e-6}, kernels.SiLU, l.gated, l.down)
		}},
	} {
		for _, rows := range []int{1, 16, 32, 64, 128, 512, 2048} {
			b.Run(fmt.Sprintf("%s/%d", c.name, rows), func(b *testing.B) {
				r, next := newResiduals(b, m.Backend, rows), 0
				products := float64(c.out) * hidden
				m.run(b, 2*float64(rows)*products, products*float64(make(1, 1).Type.Size()), func() {
					c.run(layers[next%len(layers)], r)
					next++
				})
			})
		}
	}
}

// attentions runs the last 512 rows of a sequence, and one row.
func (m *measurement) attentions(b *testing.B) {
	for _, heads := range []kernels.Heads{{Q: 14, KV: 2, Dim: 64}, {Q: 32, KV: 8, Dim: 128}} {
		for _, keys := range []int{512, 2048, 8192} {
			name := fmt.Sprintf("Attention-%d/512-rows-%d-keys", heads.Dim, keys)
			b.Run(name, func(b *testing.B) { m.attention(b, heads, 512, keys) })
		}
		b.Run(fmt.Sprintf("Attention-%d/1-row-8192-keys", heads.Dim), func(b *testing.B) { m.attention(b, heads, 1, 8192) })
	}
}

func (m *measurement) attention(b *testing.B, h kernels.Heads, rows, keys int) {
	const blockTokens = 64
	random := rand.New(rand.NewPCG(1, 1))
	// normal is bfloat16 of standard normal distribution.
	normal := func(rows, cols int) kernels.Mat {
		mat := newMat(b, m.Backend, rows, cols, kernels.BF16)
		content := make([]byte, 2*rows*cols)
		for i := 0; i < len(content); i += 2 {
			bits := math.Float32bits(float32(random.NormFloat64()))
			content[i], content[i+1] = byte(bits>>16), byte(bits>>24)
		}
		m.Write(mat.Buf, 0, content)
		return mat
	}
	all := normal(keys, h.QKVCols())
	bytes := m.KVBlockBytes(h, blockTokens)
	pages := must[kernels.Buffer](b)(m.Alloc(bytes * int64(keys/blockTokens)))
	b.Cleanup(pages.Free)
	blocks := make([]kernels.KVBlock, keys/blockTokens)
	for i := range blocks {
		blocks[i] = kernels.KVBlock{Buf: pages, Off: bytes * int64(i)}
	}
	m.StoreKV(all, kernels.RopeSpec{Heads: h}, blockTokens, []kernels.Segment{{Rows: keys, Blocks: blocks}})
	qkv, dst := normal(rows, h.QKVCols()), newMat(b, m.Backend, rows, h.Q*h.Dim, kernels.BF16)
	segs := []kernels.Segment{{Rows: rows, Pos: keys - rows, Blocks: blocks}}
	spec := kernels.AttentionSpec{Heads: h, Scale: 0.125}
	seen := float64(rows)*float64(keys-rows) + float64(rows)*float64(rows+1)/2
	m.run(b, 4*float64(h.Q*h.Dim)*seen, float64(bytes)*float64(len(blocks)), func() {
		m.Attention(dst, qkv, spec, blockTokens, segs)
	})
}
