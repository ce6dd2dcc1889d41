//go:build cuda

package driver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/kerneltest"
)

// openCudnnDevice is the first GPU, which must have cuDNN; the test stays on its thread.
func openCudnnDevice(t testing.TB) cuda.Device {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	device, err := Open(0, Options{AttentionBackend: "cudnn", PlanDir: filepath.Join(dir, "prefillonly", "cudnn"), Note: func(s string) { t.Log(s) }})
	if errors.Is(err, ErrNoDevice) || err != nil && strings.Contains(err.Error(), "attention-backend") {
		t.Skipf("not measured: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return device
}

func openCudnn(t testing.TB) kernels.Backend { return backend(t, openCudnnDevice(t)) }

// TestGPUCudnn holds cuDNN's attention to the suite of all backends.
func TestGPUCudnn(t *testing.T) {
	t.Log(openCudnn(t).Name())
	kerneltest.Run(t, openCudnn, kerneltest.Tolerance{Max: 0.03, RMS: 0.006})
}

// TestGPUPaged compares attention over blocks in place with the general kernel, and with itself in
// other chunks: buckets of all sizes, prefixes, windows, shared heads.
func TestGPUPaged(t *testing.T) {
	openCudnn(t) // skips all of it where there is none
	for _, in := range []flashInput{
		newFlashInput(kernels.Heads{Q: 16, KV: 2, Dim: 64}, 0, 700),
		newFlashInput(kernels.Heads{Q: 32, KV: 8, Dim: 128}, 0, 1000),
		newFlashInput(kernels.Heads{Q: 32, KV: 8, Dim: 128}, 1984, 2150),
		newFlashInput(kernels.Heads{Q: 32, KV: 8, Dim: 128}, 8100, 8400), // keys of two buckets
		newFlashInput(kernels.Heads{Q: 4, KV: 4, Dim: 128}, 640, 641),
		newFlashInput(kernels.Heads{Q: 32, KV: 8, Dim: 128}, 1000, 3000).with(700),
		newFlashInput(kernels.Heads{Q: 8, KV: 1, Dim: 64}, 0, 400).with(1),
	} {
		t.Run(fmt.Sprintf("%+v-%d-%d-window%d", in.heads, in.cached, in.to, in.window), func(t *testing.T) {
			device := openCudnnDevice(t)
			b, plain := backend(t, device), backend(t, lent{device}, cuda.PagedAttention, cuda.FlashAttention)
			if !device.CoversPaged(cuda.Paged{Heads: in.heads, Window: in.window, QStride: in.heads.QKVCols(), OStride: in.heads.Q * in.heads.Dim, BlockTokens: flashBlock}) {
				t.Fatal("cuDNN does not cover the shape; the note says why")
			}
			got, want := in.run(t, b, 1<<20), in.run(t, plain, 1<<20)
			if relative := difference(got, want); !(relative < 0.01) {
				t.Errorf("root mean square of the difference is %.3g of the values'", relative)
			}
			for _, chunk := range []int{1, 63, 128, 257, 1025} {
				if chunk == 1 && in.to-in.cached > 500 {
					continue // a call a row takes long and says nothing new
				}
				if !bytes.Equal(in.run(t, b, chunk), got) {
					t.Errorf("chunks of %d rows have other bits", chunk)
				}
			}
		})
	}
}

// TestGPUPagedPacked: suffixes over one prefix have the same bits in one call as in a call each, and
// none writes into its neighbour's rows.
func TestGPUPagedPacked(t *testing.T) {
	b := openCudnn(t).(*cuda.Backend)
	in := newFlashInput(kernels.Heads{Q: 32, KV: 8, Dim: 128}, 2048, 2048+40*150)
	memory := in.upload(t, b)
	defer memory.free()
	var segs []kernels.Segment
	for row := 0; row < 40*150; {
		n := []int{150, 1, 64, 65, 300}[len(segs)%5]
		n = min(n, 40*150-row)
		segs = append(segs, kernels.Segment{Row: row, Rows: n, Pos: in.cached, Blocks: memory.blocks})
		row += n
	}
	packed := memory.attend(t, b, segs)
	for i := range segs {
		memory.attend(t, b, segs[i:i+1])
	}
	if alone := memory.read(t, b); !bytes.Equal(packed, alone) {
		t.Errorf("packed and alone differ by %.3g of the values", difference(packed, alone))
	}
}
