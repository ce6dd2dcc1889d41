//go:build cuda

package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/kerneltest"
)

// openGPU is a backend on the first GPU. The test stays on its thread, to which the context belongs.
func openGPU(t testing.TB) kernels.Backend {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	device, err := Open(0, Options{})
	if errors.Is(err, ErrNoDevice) {
		t.Skipf("not measured: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	b := New(device)
	t.Cleanup(b.Close)
	return b
}

// TestGPU holds the first GPU to the suite of all backends, among it that a row's bits do not depend
// on how many rows there are.
func TestGPU(t *testing.T) {
	t.Log(openGPU(t).Name())
	kerneltest.Run(t, openGPU, kerneltest.Tolerance{Max: 0.03, RMS: 0.006})
}

// uncovered is a Device without templates.
type uncovered struct{ Device }

func (uncovered) Covers(Flash) bool { return false }

// flashInput is one sequence in aligned matrices, as models have it; the suite's are not aligned.
type flashInput struct {
	heads      kernels.Heads
	qkv        []byte
	blocks     []byte
	cached, to int
}

const flashBlock = 64

func newFlashInput(h kernels.Heads, cached, to int) flashInput {
	random := rand.New(rand.NewPCG(uint64(h.Dim), uint64(to)))
	normals := func(n int) []byte {
		raw := make([]byte, 0, 2*n)
		for range n {
			bits := roundBF16(float32(random.NormFloat64()))
			raw = append(raw, byte(bits), byte(bits>>8))
		}
		return raw
	}
	blocks := (to + flashBlock - 1) / flashBlock
	return flashInput{h, normals(to * h.QKVCols()), normals(blocks * 2 * h.KV * flashBlock * h.Dim), cached, to}
}

// run computes tokens [cached, to) in chunks of so many rows.
func (in flashInput) run(t *testing.T, b *Backend, chunk int) []byte {
	t.Helper()
	rows, h := in.to-in.cached, in.heads
	var buffers []kernels.Buffer
	for _, content := range [][]byte{in.qkv, in.blocks, make([]byte, 2*rows*h.Q*h.Dim)} {
		buf, err := b.Alloc(int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		defer buf.Free()
		b.Write(buf, 0, content)
		buffers = append(buffers, buf)
	}
	size := b.KVBlockBytes(h, flashBlock)
	var blocks []kernels.KVBlock
	for at := int64(0); at < int64(len(in.blocks)); at += size {
		blocks = append(blocks, kernels.KVBlock{Buf: buffers[1], Off: at})
	}
	qkv := kernels.Mat{Buf: buffers[0], Rows: in.to, Cols: h.QKVCols(), Stride: h.QKVCols(), Type: kernels.BF16}
	dst := kernels.Mat{Buf: buffers[2], Rows: rows, Cols: h.Q * h.Dim, Stride: h.Q * h.Dim, Type: kernels.BF16}
	spec := kernels.AttentionSpec{Heads: h, Scale: float32(1 / math.Sqrt(float64(h.Dim)))}
	for from := in.cached; from < in.to; from += chunk {
		until := min(in.to, from+chunk)
		segment := kernels.Segment{Rows: until - from, Pos: from, Blocks: blocks}
		b.Attention(dst.Slice(from-in.cached, until-in.cached), qkv.Slice(from, until), spec, flashBlock, []kernels.Segment{segment})
	}
	out := make([]byte, dst.Buf.Bytes())
	b.Read(out, dst.Buf, 0)
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	return out
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
			b := openGPU(t).(*Backend)
			plain := New(uncovered{b.device}) // shares the device, which b closes
			got, want := in.run(t, b, 1<<20), in.run(t, plain, 1<<20)
			var square, off float64
			for i := 0; i < len(want); i += 2 {
				g, w := float64(hostFloat(kernels.BF16, got[i:])), float64(hostFloat(kernels.BF16, want[i:]))
				square, off = square+w*w, off+(g-w)*(g-w)
			}
			if relative := math.Sqrt(off / square); !(relative < 0.01) {
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
