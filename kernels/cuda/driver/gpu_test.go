//go:build cuda

package driver

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/kerneltest"
	"github.com/prefillonly/prefillonly/kernels/networktest"
)

// openDevice is the first GPU. The test stays on its thread, to which the context belongs.
func openDevice(t testing.TB) cuda.Device {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	device, err := Open(0, Options{AttentionBackend: "flashinfer", Note: func(s string) { t.Log(s) }})
	if errors.Is(err, ErrNoDevice) {
		t.Skipf("not measured: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return device
}

// backend is one on device without some candidates, which it closes with the test.
func backend(t testing.TB, device cuda.Device, without ...cuda.Candidate) *cuda.Backend {
	b := cuda.New(device, without...)
	t.Cleanup(b.Close)
	return b
}

// openGPU is a backend on the first GPU.
func openGPU(t testing.TB) kernels.Backend { return backend(t, openDevice(t)) }

// TestGPU holds the first GPU to the suite of all backends, among it that a row's bits do not depend
// on how many rows there are.
func TestGPU(t *testing.T) {
	t.Log(openGPU(t).Name())
	kerneltest.Run(t, openGPU, kerneltest.Tolerance{Max: 0.03, RMS: 0.006})
}

// TestGPUNetworks holds it to the suite of those that compute networks, by our own kernels alone.
func TestGPUNetworks(t *testing.T) {
	networktest.Run(t, func(t testing.TB) kernels.Backend { return backend(t, openDevice(t), cuda.LibraryConvolutions) })
}

// TestGPUConvolutions does so with cuDNN for the convolutions that it covers.
func TestGPUConvolutions(t *testing.T) {
	device := openDevice(t)
	backend(t, device)
	if !device.Convolutions().Open() {
		t.Skip("not measured: cuDNN is not here")
	}
	networktest.Run(t, openGPU)
}

// BenchmarkGPUConvolutions is what decides about cuda.LibraryConvolutions: convolutions of a detector's backbone by our own kernels and
// with cuDNN's.
func BenchmarkGPUConvolutions(b *testing.B) {
	for _, s := range []kernels.ConvSpec{
		{In: 16, Out: 32, Groups: 1, Kernel: []int{1, 1}}, {In: 64, Out: 64, Groups: 1, Kernel: []int{3, 3}}, {In: 64, Out: 64, Groups: 64, Kernel: []int{3, 3}},
	} {
		for name, without := range map[string][]cuda.Candidate{"own": {cuda.LibraryConvolutions}, "cuDNN": nil} {
			b.Run(fmt.Sprintf("%d-%d-of-%d-%v-%s", s.In, s.Out, s.Groups, s.Kernel, name), func(b *testing.B) { benchmarkConv(b, s, without) })
		}
	}
}

func benchmarkConv(b *testing.B, s kernels.ConvSpec, without []cuda.Candidate) {
	const images, size = 4, 80
	s.Strides, s.Dilations = []int{1, 1}, []int{1, 1}
	gpu := backend(b, openDevice(b), without...)
	filter, err := gpu.NewFilter(s, kernels.HostTensor{Name: "weight", Type: kernels.F32, Rows: s.Out, Cols: s.Taps(), Data: make([]byte, 4*s.Out*s.Taps())})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(filter.Free)
	tensor := func(channels int) kernels.Tensor {
		shape := []int{images, size, size, channels}
		buf, err := gpu.Alloc(4 * images * size * size * int64(channels))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(buf.Free)
		return kernels.Tensor{Buf: buf, Shape: shape, Stride: []int{size * size * channels, size * channels, channels, 1}}
	}
	in, out, origin := tensor(s.In), tensor(s.Out), []int{-(s.Kernel[0] / 2), -(s.Kernel[1] / 2)}
	for b.Loop() {
		gpu.Conv(out, in, filter, kernels.Affine{}, origin, nil)
		if err := gpu.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(2*images*size*size*float64(s.Out*s.Taps())*float64(b.N)/b.Elapsed().Seconds()/1e12, "TFLOP/s")
}

// TestGPUFP8 does so with weights in FP8, in the way that this GPU takes and in those that a lesser one
// would.
func TestGPUFP8(t *testing.T) {
	for name, most := range map[string]cuda.FP8{"as it is": cuda.FP8Scaled, "sums": cuda.FP8Sums, "none": cuda.NoFP8} {
		limited := func(t testing.TB) cuda.Device {
			device := openDevice(t)
			return lesser{device, min(most, device.FP8())}
		}
		t.Run(name, func(t *testing.T) {
			device := limited(t)
			backend(t, device)
			t.Logf("FP8 support %d", device.FP8())
			open := func(t testing.TB) kernels.Backend { return backend(t, limited(t)) }
			kerneltest.RunFP8(t, open, kerneltest.Tolerance{Max: 0.03, RMS: 0.006}, device.FP8() != cuda.NoFP8)
		})
	}
}

// TestGPUInt8 does so with weights in int8, whose sums are exact.
func TestGPUInt8(t *testing.T) {
	kerneltest.RunInt8(t, openGPU, kerneltest.Tolerance{Max: 0.03, RMS: 0.006})
}

// TestGPUHostMemory holds the copy stream to the suite of host memory.
func TestGPUHostMemory(t *testing.T) { kerneltest.RunOffloader(t, openGPU) }

// lesser is a Device whose products do less in FP8.
type lesser struct {
	cuda.Device
	fp8 cuda.FP8
}

func (l lesser) FP8() cuda.FP8 { return l.fp8 }

// flashInput is one sequence in aligned matrices, as models have it; the suite's are not aligned.
type flashInput struct {
	heads      kernels.Heads
	window     int
	qkv        []byte // of tokens [cached, to)
	blocks     []byte
	cached, to int
}

const flashBlock = 64

func newFlashInput(h kernels.Heads, cached, to int) flashInput {
	random := rand.New(rand.NewPCG(uint64(h.Dim), uint64(to)))
	blocks := (to + flashBlock - 1) / flashBlock
	return flashInput{h, 0, normals(random, (to-cached)*h.QKVCols()), normals(random, blocks*2*h.KV*flashBlock*h.Dim), cached, to}
}

func (in flashInput) with(window int) flashInput {
	in.window = window
	return in
}

// flashMemory is an input on the device.
type flashMemory struct {
	buffers  []kernels.Buffer
	qkv, dst kernels.Mat
	blocks   []kernels.KVBlock
	spec     kernels.AttentionSpec
}

func (in flashInput) upload(t *testing.T, b *cuda.Backend) flashMemory {
	t.Helper()
	rows, h := in.to-in.cached, in.heads
	var m flashMemory
	for _, content := range [][]byte{in.qkv, in.blocks, make([]byte, 2*rows*h.Q*h.Dim)} {
		buf, err := b.Alloc(int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		b.Write(buf, 0, content)
		m.buffers = append(m.buffers, buf)
	}
	size := b.KVBlockBytes(h, flashBlock)
	for at := int64(0); at < int64(len(in.blocks)); at += size {
		m.blocks = append(m.blocks, kernels.KVBlock{Buf: m.buffers[1], Off: at})
	}
	m.qkv = kernels.Mat{Buf: m.buffers[0], Rows: rows, Cols: h.QKVCols(), Stride: h.QKVCols(), Type: kernels.BF16}
	m.dst = kernels.Mat{Buf: m.buffers[2], Rows: rows, Cols: h.Q * h.Dim, Stride: h.Q * h.Dim, Type: kernels.BF16}
	m.spec = kernels.AttentionSpec{Heads: h, Scale: float32(1 / math.Sqrt(float64(h.Dim))), Window: in.window}
	return m
}

func (m flashMemory) free() {
	for _, b := range m.buffers {
		b.Free()
	}
}

func (m flashMemory) read(t *testing.T, b *cuda.Backend) []byte {
	t.Helper()
	out := make([]byte, m.dst.Buf.Bytes())
	b.Read(out, m.dst.Buf, 0)
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	return out
}

// attend computes segments and returns all rows.
func (m flashMemory) attend(t *testing.T, b *cuda.Backend, segs []kernels.Segment) []byte {
	t.Helper()
	b.Attention(m.dst, m.qkv, m.spec, flashBlock, segs)
	return m.read(t, b)
}

// run computes tokens [cached, to) in chunks of so many rows.
func (in flashInput) run(t *testing.T, b *cuda.Backend, chunk int) []byte {
	t.Helper()
	m := in.upload(t, b)
	defer m.free()
	for from := in.cached; from < in.to; from += chunk {
		first, until := from-in.cached, min(in.to, from+chunk)-in.cached
		segment := kernels.Segment{Rows: until - first, Pos: from, Blocks: m.blocks}
		b.Attention(m.dst.Slice(first, until), m.qkv.Slice(first, until), m.spec, flashBlock, []kernels.Segment{segment})
	}
	return m.read(t, b)
}

// TestGPUFlash compares the templates with the general kernel, and with themselves in other chunks.
func TestGPUFlash(t *testing.T) {
	openGPU(t) // skips all of it where there is none
	for _, in := range []flashInput{
		newFlashInput(kernels.Heads{Q: 14, KV: 2, Dim: 64}, 0, 700),
		newFlashInput(kernels.Heads{Q: 14, KV: 2, Dim: 64}, 640, 641),
		newFlashInput(kernels.Heads{Q: 32, KV: 8, Dim: 128}, 0, 1000),
		newFlashInput(kernels.Heads{Q: 32, KV: 8, Dim: 128}, 1984, 2150),
		newFlashInput(kernels.Heads{Q: 4, KV: 4, Dim: 128}, 64, 300),
	} {
		t.Run(fmt.Sprintf("%+v-%d-%d", in.heads, in.cached, in.to), func(t *testing.T) {
			device := openDevice(t)
			b, plain := backend(t, device), backend(t, lent{device}, cuda.PagedAttention, cuda.FlashAttention)
			got, want := in.run(t, b, 1<<20), in.run(t, plain, 1<<20)
			if relative := difference(got, want); !(relative < 0.01) {
				t.Errorf("root mean square of the difference is %.3g of the values'", relative)
			}
			for _, chunk := range []int{1, 33, 128, 129} {
				if !bytes.Equal(in.run(t, b, chunk), got) {
					t.Errorf("chunks of %d rows have other bits", chunk)
				}
			}
		})
	}
}
