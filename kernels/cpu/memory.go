//go:build cgo && linux && amd64

package cpu

/*
#include "prefillonly_kernels.h"
*/
import "C"

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/prefillonly/prefillonly/kernels"
)

// Buffers ask for huge pages where they fill them: the products read whole matrices, and would miss
// the TLB at every 4 KiB. Their ends must not take huge pages, of which they would waste half.
const (
	hugePage      = 2 << 20
	advHugePage   = 14 // MADV_HUGEPAGE
	advNoHugePage = 15 // MADV_NOHUGEPAGE
)

// buffer is an anonymous mapping, so that Free gives the memory back at once and the garbage
// collector never counts it.
type buffer struct {
	data    []byte // page-aligned
	mapping []byte // data with what aligns it to huge pages

	wanted     atomic.Int64 // bytes that are to be backed, from the first on
	populating sync.Mutex   // guards what follows, and the mapping while it is being backed
	populated  int64        // bytes that have been asked of the system
}

func newBuffer(bytes int64) (*buffer, error) {
	if bytes < 0 {
		return nil, fmt.Errorf("kernels/cpu: cannot allocate %d bytes", bytes)
	}
	room := bytes
	if bytes >= hugePage {
		room += hugePage
	}
	mapping, err := syscall.Mmap(-1, 0, int(max(room, 1)), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("kernels/cpu: cannot allocate %d bytes: %w", bytes, err)
	}
	start := 0
	if bytes >= hugePage {
		address := int(uintptr(unsafe.Pointer(unsafe.SliceData(mapping))))
		start = (address+hugePage-1)/hugePage*hugePage - address
		whole := start + int(bytes)/hugePage*hugePage
		// Without huge pages it is slower, not wrong.
		_ = syscall.Madvise(mapping[start:whole], advHugePage)
		_ = syscall.Madvise(mapping[whole:], advNoHugePage)
	}
	return &buffer{data: mapping[start : start+int(bytes)], mapping: mapping}, nil
}

func (b *buffer) Bytes() int64 { return int64(len(b.data)) }

func (b *buffer) Free() {
	b.populating.Lock()
	defer b.populating.Unlock()
	if b.mapping != nil {
		_ = syscall.Munmap(b.mapping)
	}
	b.data, b.mapping = nil, nil
}

// At is the address of a byte.
func (b *buffer) At(off int64) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(b.data)), off)
}

// Alloc maps zeroed memory.
func (b *Backend) Alloc(bytes int64) (kernels.Buffer, error) { return newBuffer(bytes) }

// Write copies src into the buffer.
func (b *Backend) Write(buf kernels.Buffer, off int64, src []byte) {
	copy(buf.(*buffer).data[off:off+int64(len(src))], src)
}

// Read copies from the buffer into dst: much of it by all threads. Write does not, since its source may be a mapped
// file, of which a page that cannot be read ends the process where C reads it, and is an error where Go does.
func (b *Backend) Read(dst []byte, buf kernels.Buffer, off int64) {
	const worthThreads = 256 << 10
	src := buf.(*buffer).data[off : off+int64(len(dst))]
	if len(dst) < worthThreads {
		copy(dst, src)
		return
	}
	C.pf_copy(b.pool, unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src)), C.size_t(len(dst)))
}

// CopyKV copies between blocks.
func (b *Backend) CopyKV(dst, src kernels.KVBlock, bytes int64) {
	copy(dst.Buf.(*buffer).data[dst.Off:dst.Off+bytes], src.Buf.(*buffer).data[src.Off:src.Off+bytes])
}

// bf16 is the address of a matrix of activations.
func bf16(m kernels.Mat) *C.pf_bf16 { return (*C.pf_bf16)(m.Buf.(*buffer).At(m.Off)) }

func float32s(m kernels.Mat) *C.float { return (*C.float)(m.Buf.(*buffer).At(m.Off)) }

// fits tells whether m is a matrix of this type and width that lies within its buffer; it records an
// error otherwise.
func (b *Backend) fits(op, name string, m kernels.Mat, rows, cols int, t kernels.DType) bool {
	end := m.Off + (int64(rows-1)*int64(m.Stride)+int64(cols))*t.Size()
	switch {
	case m.Type != t || m.Rows != rows || m.Cols != cols || m.Stride < cols:
		b.fail("%s: %s is %s [%d, %d], stride %d; want %s [%d, %d]", op, name, m.Type, m.Rows, m.Cols, m.Stride, t, rows, cols)
	case rows > 0 && (m.Off < 0 || end > m.Buf.Bytes()):
		b.fail("%s: %s ends at byte %d of a buffer of %d", op, name, end, m.Buf.Bytes())
	default:
		return true
	}
	return false
}
