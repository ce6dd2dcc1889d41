// Package simt is a cuda.Device on the host: the GPU kernels' own sources run through a shim of
// CUDA's execution model, so that kernels and host logic are tested where there is no GPU.
package simt

// #cgo CXXFLAGS: -std=c++17 -O2 -Wall -Wno-unknown-pragmas
// #include <stdlib.h>
// #include "launch.h"
import "C"

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/cudnn"
)

// Device holds its "device memory" in mappings of its own.
type Device struct {
	live    map[cuda.Ptr][]byte // the mapping that holds an address of Alloc
	fp8     cuda.FP8
	marks   []time.Time // of Mark
	pending []*pending  // copies out of pinned memory
	err     error

	copies copyQueue

	// InPlace says whether the device computes attention over blocks in place, as with cuDNN.
	InPlace bool

	// Library computes convolutions, if there is one, in the device's memory.
	Library *cudnn.Convolutions
}

var _ cuda.Device = (*Device)(nil)

// New returns an empty device without FP8 arithmetic.
func New() *Device { return NewFP8(cuda.NoFP8) }

// NewFP8 returns an empty device whose products do so much in FP8.
func NewFP8(fp8 cuda.FP8) *Device { return &Device{live: map[cuda.Ptr][]byte{}, fp8: fp8} }

// Name is "simt".
func (d *Device) Name() string { return "simt" }

// Close frees what was not freed.
func (d *Device) Close() {
	for p := range d.live {
		d.Free(p)
	}
}

// Memory is as if the device were a small one.
func (d *Device) Memory() (free, total int64, err error) {
	const size = 16 << 30
	free = size
	for _, whole := range d.live {
		free -= int64(len(whole))
	}
	return free, size, nil
}

// Alloc returns zeroed memory. Mappings lie close to one another, as memory of a GPU does.
func (d *Device) Alloc(bytes int64) (cuda.Ptr, error) {
	alignment := cuda.Alignment(bytes)
	whole, err := syscall.Mmap(-1, 0, int(bytes+alignment), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return 0, fmt.Errorf("simt: no %d bytes of memory: %w", bytes, err)
	}
	from := cuda.Ptr(uintptr(unsafe.Pointer(&whole[0])))
	at := (from + cuda.Ptr(alignment-1)) &^ cuda.Ptr(alignment-1)
	d.live[at] = whole
	return at, nil
}

// Free releases memory of Alloc; anything else is a failure that Sync reports.
func (d *Device) Free(p cuda.Ptr) {
	d.flush()
	whole, ok := d.live[p]
	if !ok {
		d.fail("free of %#x, which is not allocated", uint64(p))
		return
	}
	delete(d.live, p)
	if err := syscall.Munmap(whole); err != nil {
		d.fail("free of %#x: %v", uint64(p), err)
	}
}

// pointer is the C address of p, which is not Go memory.
func pointer(p cuda.Ptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// Upload copies at once.
func (d *Device) Upload(dst cuda.Ptr, src []byte) {
	copy(unsafe.Slice((*byte)(pointer(dst)), len(src)), src)
}

// Download copies at once.
func (d *Device) Download(dst []byte, src cuda.Ptr) {
	d.flush()
	copy(dst, unsafe.Slice((*byte)(pointer(src)), len(dst)))
}

// Copy copies at once.
func (d *Device) Copy(dst, src cuda.Ptr, bytes int64) {
	d.flush()
	copy(unsafe.Slice((*byte)(pointer(dst)), bytes), unsafe.Slice((*byte)(pointer(src)), bytes))
}

// Launch runs the kernel to its end.
func (d *Device) Launch(kernel string, grid [2]int, threads int, args ...uint64) {
	d.copies.drift()
	d.flush()
	name := C.CString(kernel)
	defer C.free(unsafe.Pointer(name))
	words := (*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(args)))
	switch n := C.simt_launch(name, C.unsigned(grid[0]), C.unsigned(grid[1]), C.unsigned(threads), words, C.size_t(len(args))); n {
	case -1:
	case -2:
		d.fail("no kernel %s", kernel)
	default:
		d.fail("%s takes %d arguments, got %d", kernel, int(n), len(args))
	}
}

// FP8 is what the device was made with.
func (d *Device) FP8() cuda.FP8 { return d.fp8 }

// Int8 says that any are multiplied.
func (d *Device) Int8(int, int) error { return nil }

// checkCodes reports a product of codes that the device, as a GPU of its kind, does not compute.
func (d *Device) checkCodes(g cuda.Gemm) {
	size, rows := int(g.DType.Size()), 1
	if g.Type == kernels.I8 {
		size, rows = 4, cuda.Int8Rows
	}
	switch {
	case g.N%16 != 0 || g.K%16 != 0 || g.AStride%16 != 0 || g.DStride*size%16 != 0 || g.A%16 != 0 || g.W%16 != 0 || g.D%16 != 0 || g.M%rows != 0:
		d.fail("a product of codes is not aligned: %+v", g)
	case (g.AScale == 0) != (g.WScale == 0):
		d.fail("scales at %#x and %#x: both or none", uint64(g.AScale), uint64(g.WScale))
	case g.Type == kernels.I8 && g.W%256 != 0:
		d.fail("weights in int8 at %#x, which is no multiple of 256", uint64(g.W))
	case g.Type == kernels.I8 && (g.Bias != 0 || g.AScale != 0 || g.Accumulate):
		d.fail("a product in int8 that does more than sum: %+v", g)
	case g.Type == kernels.F8E4M3 && (d.fp8 == cuda.NoFP8 || g.AScale != 0 && d.fp8 != cuda.FP8Scaled):
		d.fail("a product in FP8, with scales at %#x, on a device of kind %d", uint64(g.AScale), d.fp8)
	}
}

// Gemm is three loops.
func (d *Device) Gemm(g cuda.Gemm) {
	args := C.simt_gemm_args{
		a: C.uint64_t(g.A), w: C.uint64_t(g.W), bias: C.uint64_t(g.Bias), d: C.uint64_t(g.D),
		a_scale: C.uint64_t(g.AScale), w_scale: C.uint64_t(g.WScale),
		m: C.int64_t(g.M), n: C.int64_t(g.N), k: C.int64_t(g.K), a_stride: C.int64_t(g.AStride), d_stride: C.int64_t(g.DStride),
	}
	switch g.Type {
	case kernels.BF16:
		args._type = C.SIMT_BF16
	case kernels.F8E4M3:
		args._type = C.SIMT_FP8
	case kernels.I8:
		args._type = C.SIMT_INT8
	default:
		d.fail("a product of %s", g.Type)
		return
	}
	if g.Type.Scaled() {
		d.checkCodes(g)
	}
	d.flush()
	if g.DType == kernels.F32 {
		args.is_float = 1
	}
	if g.Accumulate {
		args.accumulate = 1
	}
	C.simt_gemm(&args)
}

// Covers heads of 64 and 128, as the templates do.
func (d *Device) Covers(f cuda.Flash) bool { return f.Heads.Dim == 64 || f.Heads.Dim == 128 }

// Flash is plain loops.
func (d *Device) Flash(f cuda.Flash) {
	d.flush()
	C.simt_flash(&C.simt_flash_args{
		q: C.uint64_t(f.Q), k: C.uint64_t(f.K), v: C.uint64_t(f.V), o: C.uint64_t(f.O),
		q_stride: C.int64_t(f.QStride), o_stride: C.int64_t(f.OStride), key_stride: C.int64_t(f.KeyStride), kv_head_stride: C.int64_t(f.HeadStride),
		rows: C.int64_t(f.Rows), keys: C.int64_t(f.Keys), q_heads: C.int64_t(f.Heads.Q), kv_heads: C.int64_t(f.Heads.KV), dim: C.int64_t(f.Heads.Dim),
		scale: C.float(f.Scale),
	})
}

// CoversPaged is InPlace: any heads, strides and windows.
func (d *Device) CoversPaged(cuda.Paged) bool { return d.InPlace }

// Paged is plain loops.
func (d *Device) Paged(p cuda.Paged) {
	d.flush()
	C.simt_paged(&C.simt_paged_args{
		q: C.uint64_t(p.Q), k: C.uint64_t(p.K), v: C.uint64_t(p.V), o: C.uint64_t(p.O), rows: C.uint64_t(p.Rows), keys: C.uint64_t(p.Keys),
		table: C.uint64_t(p.Table), q_offset: C.uint64_t(p.QOffset), o_offset: C.uint64_t(p.OOffset),
		q_stride: C.int64_t(p.QStride), o_stride: C.int64_t(p.OStride), batch: C.int64_t(p.Batch), table_width: C.int64_t(p.MaxKeys / p.BlockTokens),
		q_heads: C.int64_t(p.Heads.Q), kv_heads: C.int64_t(p.Heads.KV), dim: C.int64_t(p.Heads.Dim), block_tokens: C.int64_t(p.BlockTokens),
		window: C.int64_t(p.Window), scale: C.float(p.Scale),
	})
}

// Convolutions is the library, or nil.
func (d *Device) Convolutions() *cudnn.Convolutions { return d.Library }

// Sync reports the first failure.
func (d *Device) Sync() error {
	d.flush()
	err := d.err
	d.err = nil
	return err
}

func (d *Device) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("simt: "+format, args...)
	}
}
