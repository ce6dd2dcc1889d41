package simt

import (
	"unsafe"

	"github.com/prefillonly/prefillonly/kernels/cuda"
)

// copyQueue holds the copies that have not been made: each is made when its mark is awaited, or at some
// launch before, so that a test sees what depends on a copy and does not wait for it.
type copyQueue struct {
	pending []func()
	done    uint64 // copies made
	rolls   uint32 // state of the generator that decides when
}

// Pinned returns ordinary memory.
func (d *Device) Pinned(bytes int) (memory []byte, free func(), err error) {
	return make([]byte, bytes), func() {}, nil
}

// CopyOut implements cuda.HostCopies.
func (d *Device) CopyOut(dst []byte, src cuda.Ptr, p cuda.Pieces) {
	d.enqueueCopy(func() {
		for i := range int64(p.Count) {
			d.Download(dst[i*p.Stride:][:p.Bytes], src+cuda.Ptr(i*p.Stride))
		}
	})
}

// CopyIn implements cuda.HostCopies.
func (d *Device) CopyIn(dst cuda.Ptr, src []byte, p cuda.Pieces) {
	d.enqueueCopy(func() {
		for i := range int64(p.Count) {
			copy(unsafe.Slice((*byte)(pointer(dst+cuda.Ptr(i*p.Stride))), p.Bytes), src[i*p.Stride:])
		}
	})
}

func (d *Device) enqueueCopy(c func()) { d.copies.pending = append(d.copies.pending, c) }

// OrderCopies has nothing to do: all other work is done when it is enqueued.
func (d *Device) OrderCopies() {}

// MarkCopies implements cuda.HostCopies.
func (d *Device) MarkCopies() uint64 { return d.copies.done + uint64(len(d.copies.pending)) }

// AwaitCopies implements cuda.HostCopies.
func (d *Device) AwaitCopies(mark uint64) {
	for d.copies.done < mark {
		d.copies.runNextCopy()
	}
}

func (q *copyQueue) runNextCopy() {
	c := q.pending[0]
	q.pending = q.pending[1:]
	q.done++
	c()
}

// drift makes a copy now and then, as if the copies went on beside a launch.
func (q *copyQueue) drift() {
	q.rolls = q.rolls*1664525 + 1013904223 // Numerical Recipes' generator
	if len(q.pending) > 0 && q.rolls>>30 == 0 {
		q.runNextCopy()
	}
}
