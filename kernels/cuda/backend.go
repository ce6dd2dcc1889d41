// Package cuda is the GPU backend: the host logic of every operation over a Device.
package cuda

import (
	"fmt"
	"math"

	"github.com/prefillonly/prefillonly/kernels"
)

// block is PF_BLOCK of src/device.h.
const block = 256

// Backend implements kernels.Backend over a Device.
type Backend struct {
	*networkOperations

	device   Device
	disabled disabled
	err      error   // first failure since the last Sync
	arena    scratch // activations inside one operation
	tables   scratch // rows, positions and block addresses of a launch
	ordered  bool    // copies follow what has been computed; see copyPieces
	gathered scratch // one layer's keys and values of the longest segment
	widened  widened // a matrix in FP8 as bfloat16, on a device without FP8 arithmetic
	stream   *stream // weights on their way to the device; nil but while they are loaded
}

var _ kernels.Backend = (*Backend)(nil)

// New returns a backend that owns device, and does without some candidates.
func New(device Device, without ...Candidate) *Backend {
	b := &Backend{
		device: device, disabled: disable(without), arena: scratch{device: device}, tables: scratch{device: device}, gathered: scratch{device: device},
		widened: widened{scratch: scratch{device: device}},
	}
	b.networkOperations = newNetworkOperations(ofNetworks{b})
	return b
}

// Name is the device's.
func (b *Backend) Name() string { return b.device.Name() }

// ActType is bfloat16.
func (b *Backend) ActType() kernels.DType { return kernels.BF16 }

// Close frees the scratch memory and closes the device.
func (b *Backend) Close() {
	b.release()
	b.device.Close()
}

func (b *Backend) release() {
	b.endStream()
	b.networkOperations.Close()
	b.arena.freeMemory()
	b.tables.freeMemory()
	b.gathered.freeMemory()
	b.widened.freeWeights()
}

// Sync waits for the device.
func (b *Backend) Sync() error {
	b.endCopies()
	err := Worse(b.err, b.device.Sync())
	b.err, b.ordered = nil, false
	return err
}

// Memory is the device's memory: what is free now and all of it, in bytes.
func (b *Backend) Memory() (free, total int64, err error) { return b.device.Memory() }

func (b *Backend) fail(format string, args ...any) {
	b.err = Worse(b.err, fmt.Errorf("%s: %w", b.Name(), fmt.Errorf(format, args...)))
}

// buffer is a kernels.Buffer in device memory.
type buffer struct {
	device Device
	at     Ptr
	bytes  int64
}

func (m *buffer) Bytes() int64 { return m.bytes }

func (m *buffer) Free() {
	if m.at != 0 {
		m.device.Free(m.at)
		m.at, m.bytes = 0, 0
	}
}

// Alloc returns zeroed device memory.
func (b *Backend) Alloc(bytes int64) (kernels.Buffer, error) {
	if bytes < 0 {
		return nil, fmt.Errorf("%s: cannot allocate %d bytes", b.Name(), bytes)
	}
	at, err := b.device.Alloc(max(bytes, 1))
	if err != nil {
		return nil, err
	}
	return &buffer{b.device, at, bytes}, nil
}

// Write copies src into the buffer.
func (b *Backend) Write(dst kernels.Buffer, off int64, src []byte) {
	m := dst.(*buffer)
	if off < 0 || off+int64(len(src)) > m.bytes {
		b.fail("write of %d bytes at %d into a buffer of %d", len(src), off, m.bytes)
		return
	}
	b.device.Upload(m.at+Ptr(off), src)
}

// Read copies out of the buffer, after all that was enqueued before.
func (b *Backend) Read(dst []byte, src kernels.Buffer, off int64) {
	m := src.(*buffer)
	if off < 0 || off+int64(len(dst)) > m.bytes {
		b.fail("read of %d bytes at %d from a buffer of %d", len(dst), off, m.bytes)
		return
	}
	b.device.Download(dst, m.at+Ptr(off))
}

// CopyKV enqueues a copy between blocks.
func (b *Backend) CopyKV(dst, src kernels.KVBlock, bytes int64) {
	to, from := dst.Buf.(*buffer), src.Buf.(*buffer)
	if dst.Off < 0 || src.Off < 0 || dst.Off+bytes > to.bytes || src.Off+bytes > from.bytes {
		b.fail("a copy of %d bytes from %d of %d to %d of %d", bytes, src.Off, from.bytes, dst.Off, to.bytes)
		return
	}
	b.device.Copy(to.at+Ptr(dst.Off), from.at+Ptr(src.Off), bytes)
}

// Address is where a buffer of a Backend begins in device memory, for what works on it beside the Backend.
func Address(buf kernels.Buffer) Ptr { return buf.(*buffer).at }

// at is the address of a matrix's first element.
func at(m kernels.Mat) Ptr { return Address(m.Buf) + Ptr(m.Off) }

// scratch is device memory that grows to the largest use and is handed out anew by each operation.
type scratch struct {
	device Device
	base   Ptr
	bytes  int64
}

// allocBytes returns so many bytes, or 0 after a failure that it reports to b.
func (s *scratch) allocBytes(b *Backend, bytes int64) Ptr {
	if bytes > s.bytes {
		s.freeMemory()
		base, err := s.device.Alloc(bytes)
		if err != nil {
			b.fail("scratch: %w", err)
			return 0
		}
		s.base, s.bytes = base, bytes
	}
	return s.base
}

func (s *scratch) freeMemory() {
	if s.base != 0 {
		s.device.Free(s.base)
	}
	s.base, s.bytes = 0, 0
}

// floatArg is a kernel argument that is a float.
func floatArg(f float32) uint64 { return uint64(math.Float32bits(f)) }
