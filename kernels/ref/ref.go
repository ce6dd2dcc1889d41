// Package ref is the reference backend: plain Go, float32 throughout, obvious rather than fast. It
// builds without cgo, runs everywhere, and is what the other backends are compared with.
//
// Every sum is taken in one fixed order and every product is rounded before it is added (the
// explicit float32 conversions keep the compiler from fusing them), so a row's bits depend neither
// on the call it is in nor on the architecture.
package ref

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/prefillonly/prefillonly/kernels"
)

// Backend computes in float32 with goroutines, all of which end before a call returns.
type Backend struct {
	fp8 bool  // with weights in FP8, activations are quantised too
	err error // first failure since the last Sync
}

var _ kernels.Backend = (*Backend)(nil)

// New returns a reference backend. It holds nothing that Close would have to give back.
func New() kernels.Backend { return &Backend{} }

// NewFP8 returns a reference backend that treats weights in FP8 as devices with FP8 arithmetic do.
func NewFP8() kernels.Backend { return &Backend{fp8: true} }

// Name is "ref".
func (b *Backend) Name() string { return "ref" }

// ActType is float32.
func (b *Backend) ActType() kernels.DType { return kernels.F32 }

// Close does nothing.
func (b *Backend) Close() {}

// Sync returns and forgets the first error since the last Sync.
func (b *Backend) Sync() error {
	err := b.err
	b.err = nil
	return err
}

func (b *Backend) recordFailure(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf("ref: "+format, args...)
	}
}

// alignment is what Backend.Alloc promises.
const alignment = 64

// buffer is zeroed, aligned memory of the Go heap, seen as bytes and as float32.
type buffer struct {
	bytes  []byte
	floats []float32
}

func (m *buffer) Bytes() int64 { return int64(len(m.bytes)) }

// Free drops the memory, so that a use after it fails at once.
func (m *buffer) Free() { m.bytes, m.floats = nil, nil }

// Alloc returns zeroed memory, aligned to 64 bytes.
func (b *Backend) Alloc(bytes int64) (kernels.Buffer, error) {
	if bytes < 0 || bytes > math.MaxInt64-2*alignment {
		return nil, fmt.Errorf("ref: cannot allocate %d bytes", bytes)
	}
	words := make([]float32, (bytes+3)/4+alignment/4)
	skip := (alignment - uintptr(unsafe.Pointer(&words[0]))%alignment) % alignment / 4
	words = words[skip : int64(skip)+(bytes+3)/4]
	return &buffer{
		bytes:  unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), bytes),
		floats: words,
	}, nil
}

// Write copies src into the buffer at byte offset off.
func (b *Backend) Write(dst kernels.Buffer, off int64, src []byte) {
	copy(dst.(*buffer).bytes[off:off+int64(len(src))], src)
}

// Read copies from the buffer at byte offset off into dst.
func (b *Backend) Read(dst []byte, src kernels.Buffer, off int64) {
	copy(dst, src.(*buffer).bytes[off:off+int64(len(dst))])
}

// CopyKV copies between blocks.
func (b *Backend) CopyKV(dst, src kernels.KVBlock, bytes int64) {
	copy(dst.Buf.(*buffer).bytes[dst.Off:dst.Off+bytes], src.Buf.(*buffer).bytes[src.Off:src.Off+bytes])
}

// matrixRow is row i of a float32 matrix.
func matrixRow(m kernels.Mat, i int) []float32 {
	if m.Type != kernels.F32 {
		panic("ref: matrices are float32, got " + m.Type.String())
	}
	at := m.Off/4 + int64(i)*int64(m.Stride)
	return m.Buf.(*buffer).floats[at : at+int64(m.Cols)]
}
