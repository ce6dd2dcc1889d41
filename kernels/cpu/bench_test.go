//go:build cgo && linux && amd64

package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/cpu/onednn"
)

// The matrices of a layer of Qwen2.5-0.5B.
const hidden, inter, qkvOut = 896, 4864, 1152

var benchRows = []int{1, 16, 64, 150, 512, 2048}

var weightsOf = map[int][]byte{}

// weights are n random bfloat16 around zero, the same for one n.
func weights(n int) []byte {
	if w, ok := weightsOf[n]; ok {
		return w
	}
	random := rand.New(rand.NewPCG(1, uint64(n)))
	w := make([]byte, 2*n)
	for i := 0; i < len(w); i += 2 {
		w[i] = byte(random.Uint32())
		w[i+1] = 0x3c&0x3f | byte(random.Uint32()&0x80)
	}
	weightsOf[n] = w
	return w
}

func tensor(rows, cols int) kernels.HostTensor {
	return kernels.HostTensor{Name: "weights", Type: kernels.BF16, Rows: rows, Cols: cols, Data: weights(rows * cols)}
}

func must[T any](b *testing.B) func(T, error) T {
	return func(v T, err error) T {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
		return v
	}
}

// layer is the matrices of one layer.
type layer struct {
	qkv, o, gated, down kernels.Linear
	norm                kernels.Vector
}

func newLayer(b *testing.B, backend *cpu.Backend, make func(rows, cols int) kernels.HostTensor) *layer {
	linear := must[kernels.Linear](b)
	l := &layer{
		qkv:   linear(backend.NewLinear([]kernels.HostTensor{make(qkvOut, hidden)}, nil)),
		o:     linear(backend.NewLinear([]kernels.HostTensor{make(hidden, hidden)}, nil)),
		gated: linear(backend.NewGatedLinear(make(inter, hidden), make(inter, hidden))),
		down:  linear(backend.NewLinear([]kernels.HostTensor{make(hidden, inter)}, nil)),
		norm:  must[kernels.Vector](b)(backend.NewVector(tensor(1, hidden))),
	}
	for _, m := range []kernels.Linear{l.qkv, l.o, l.gated, l.down} {
		b.Cleanup(m.Free)
	}
	return l
}

// residuals is room for a chunk.
type residuals struct{ x, wide, narrow kernels.Mat }

func newResiduals(b *testing.B, backend *cpu.Backend, rows int) *residuals {
	return &residuals{
		x:      newMat(b, backend, rows, hidden, kernels.F32),
		wide:   newMat(b, backend, rows, qkvOut, kernels.BF16),
		narrow: newMat(b, backend, rows, hidden, kernels.BF16),
	}
}

func newMat(b *testing.B, backend *cpu.Backend, rows, cols int, t kernels.DType) kernels.Mat {
	buf := must[kernels.Buffer](b)(backend.Alloc(int64(rows*cols) * t.Size()))
	b.Cleanup(buf.Free)
	return kernels.Mat{Buf: buf, Rows: rows, Cols: cols, Stride: cols, Type: t}
}

// yardstick is oneDNN's time for the products of the shapes [out, in], one after the other.
func yardstick(b *testing.B, rows int, shapes [][2]int) func() {
	var runs []func()
	for _, s := range shapes {
		w := weights(s[0] * s[1])
		values := make([]uint16, s[0]*s[1])
		for i := range values {
			values[i] = uint16(w[2*i]) | uint16(w[2*i+1])<<8
		}
		m := must[*onednn.Matmul](b)(onednn.New(rows, s[0], s[1], values))
		b.Cleanup(m.Free)
		src, dst := values[:0], make([]uint16, rows*s[0])
		for len(src) < rows*s[1] {
			src = append(src, values...)
		}
		src = src[:rows*s[1]]
		runs = append(runs, func() {
			if err := m.Run(dst, src); err != nil {
				b.Fatal(err)
			}
		})
	}
	return func() {
		for _, run := range runs {
			run()
		}
	}
}

// best is the shortest time of run in some rounds.
func best(run func()) time.Duration {
	run()
	shortest := time.Hour
	for deadline := time.Now().Add(300 * time.Millisecond); time.Now().Before(deadline); {
		start := time.Now()
		run()
		shortest = min(shortest, time.Since(start))
	}
	return shortest
}

// BenchmarkLinear runs the products of a layer with all that is fused into them, and beside it oneDNN's
// bare products of the same shapes; it reports the rates of both and their ratio.
func BenchmarkLinear(b *testing.B) {
	for _, rows := range benchRows {
		for _, c := range []struct {
			name   string
			shapes [][2]int
			run    func(m *cpu.Backend, l *layer, r *residuals)
		}{
			{"NormLinear", [][2]int{{qkvOut, hidden}}, func(m *cpu.Backend, l *layer, r *residuals) {
				m.NormLinear(r.wide, r.x, kernels.Norm{Weight: l.norm, Eps: 1e-6}, l.qkv)
			}},
			{"AddLinear", [][2]int{{hidden, hidden}}, func(m *cpu.Backend, l *layer, r *residuals) { m.AddLinear(r.x, r.narrow, l.o) }},
			{"MLP", [][2]int{{2 * inter, hidden}, {hidden, inter}}, func(m *cpu.Backend, l *layer, r *residuals) {
				m.MLP(r.x, kernels.Norm{Weight: l.norm, Eps: 1e-6}, kernels.SiLU, l.gated, l.down)
			}},
		} {
			b.Run(fmt.Sprintf("%s/%d", c.name, rows), func(b *testing.B) {
				backend := newBackend(b)
				l, r := newLayer(b, backend, tensor), newResiduals(b, backend, rows)
				library := best(yardstick(b, rows, c.shapes))
				time.Sleep(20 * time.Millisecond) // the library's threads spin for a while
				shortest := time.Hour
				for b.Loop() {
					start := time.Now()
					c.run(backend, l, r)
					shortest = min(shortest, time.Since(start))
				}
				if err := backend.Sync(); err != nil {
					b.Fatal(err)
				}
				flops := 0.0
				for _, s := range c.shapes {
					flops += 2 * float64(rows) * float64(s[0]) * float64(s[1])
				}
				b.ReportMetric(flops/float64(shortest.Nanoseconds()), "GFLOP/s")
				b.ReportMetric(flops/float64(library.Nanoseconds()), "oneDNN-GFLOP/s")
				b.ReportMetric(float64(library)/float64(shortest), "ratio")
			})
		}
	}
}

// BenchmarkLogits runs the LM head over the whole vocabulary; its floor is reading the table once.
func BenchmarkLogits(b *testing.B) {
	for _, c := range []struct {
		name    string
		make    func(rows, cols int) kernels.HostTensor
		element float64 // bytes
	}{
		{"bf16", tensor, 2},
		{"w8a16", quantised(kernels.I8, true), 1},
		{"w8a8", quantised(kernels.I8, false), 1},
	} {
		for _, rows := range []int{1, 8, 16, 256} {
			b.Run(fmt.Sprintf("%s/%d", c.name, rows), func(b *testing.B) { benchLogits(b, c.make, c.element, rows) })
		}
	}
}

func benchLogits(b *testing.B, make func(rows, cols int) kernels.HostTensor, element float64, rows int) {
	const vocabulary = 151936
	backend := newBackend(b)
	x := newMat(b, backend, rows, hidden, kernels.F32)
	norm := must[kernels.Vector](b)(backend.NewVector(tensor(1, hidden)))
	table := must[kernels.Table](b)(backend.NewTable(make(vocabulary, hidden)))
	defer table.Free()
	dst := newMat(b, backend, rows, vocabulary, kernels.F32)
	shortest := time.Hour
	for b.Loop() {
		start := time.Now()
		backend.Logits(dst, x, kernels.Norm{Weight: norm, Eps: 1e-6}, table, nil)
		shortest = min(shortest, time.Since(start))
	}
	if err := backend.Sync(); err != nil {
		b.Fatal(err)
	}
	elements, ns := vocabulary*float64(hidden), float64(shortest.Nanoseconds())
	b.ReportMetric(element*elements/ns, "GB/s")
	b.ReportMetric(2*elements*float64(rows)/ns, "GFLOP/s")
}

// quantised makes a matrix of random codes.
func quantised(t kernels.DType, weightOnly bool) func(rows, cols int) kernels.HostTensor {
	return func(rows, cols int) kernels.HostTensor {
		w := kernels.HostTensor{Name: "weights", Type: t, WeightOnly: weightOnly, Rows: rows, Cols: cols, Data: weights(rows * cols)[:rows*cols]}
		for range rows {
			w.Scale = append(w.Scale, 1e-4)
		}
		return w
	}
}

// BenchmarkQuantised runs MLP at Llama-3.1-8B's shape with quantised weights and in bfloat16 by turns; it reports
// the rates of both on one core, by its processor time, and their ratio. Matrices are far larger than caches, as those of a whole model.
func BenchmarkQuantised(b *testing.B) {
	const hidden, inter = 4096, 14336
	backend := must[*cpu.Backend](b)(cpu.New(cpu.Config{Threads: 1}))
	b.Cleanup(backend.Close)
	linear := must[kernels.Linear](b)
	type mlp struct{ gated, down kernels.Linear }
	newMLP := func(b *testing.B, make func(rows, cols int) kernels.HostTensor) mlp {
		m := mlp{linear(backend.NewGatedLinear(make(inter, hidden), make(inter, hidden))), linear(backend.NewLinear([]kernels.HostTensor{make(hidden, inter)}, nil))}
		b.Cleanup(m.gated.Free)
		b.Cleanup(m.down.Free)
		return m
	}
	dense := newMLP(b, tensor)
	norm := must[kernels.Vector](b)(backend.NewVector(tensor(1, hidden)))
	for _, c := range []struct {
		name string
		make func(rows, cols int) kernels.HostTensor
	}{
		{"fp8", quantised(kernels.F8E4M3, false)},
		{"w8a16", quantised(kernels.I8, true)},
		{"w4a16", grouped},
		{"w8a8", quantised(kernels.I8, false)},
	} {
		b.Run(c.name, func(b *testing.B) {
			both := []mlp{newMLP(b, c.make), dense}
			for _, rows := range []int{1, 8, 16, 64, 150, 512} {
				b.Run(fmt.Sprint(rows), func(b *testing.B) {
					runtime.LockOSThread()
					defer runtime.UnlockOSThread()
					x := newMat(b, backend, rows, hidden, kernels.F32)
					shortest := [2]time.Duration{time.Hour, time.Hour}
					for b.Loop() {
						for i, m := range both {
							start := threadTime(b)
							backend.MLP(x, kernels.Norm{Weight: norm, Eps: 1e-6}, kernels.SiLU, m.gated, m.down)
							shortest[i] = min(shortest[i], threadTime(b)-start)
						}
					}
					if err := backend.Sync(); err != nil {
						b.Fatal(err)
					}
					flops := 2 * float64(rows) * 3 * hidden * inter
					b.ReportMetric(flops/float64(shortest[0].Nanoseconds()), "GFLOP/s")
					b.ReportMetric(flops/float64(shortest[1].Nanoseconds()), "bf16-GFLOP/s")
					b.ReportMetric(float64(shortest[1])/float64(shortest[0]), "ratio")
				})
			}
		})
	}
}

// threadTime is the processor time that the calling thread has used.
func threadTime(b *testing.B) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ts.Nano())
}
