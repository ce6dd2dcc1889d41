package cuda

import (
	"fmt"

	"github.com/prefillonly/prefillonly/kernels"
)

var _ kernels.Offloader = (*Backend)(nil)

// Pieces are Count runs of Bytes bytes, which begin Stride bytes apart.
type Pieces struct {
	Bytes, Stride int64
	Count         int
}

// HostCopies is how a Device copies to and from pinned host memory beside what it computes: in a queue
// of its own, in the order of the calls. Sync does not wait for it.
type HostCopies interface {
	// Pinned returns page-locked host memory, and what frees it.
	Pinned(bytes int) (memory []byte, free func(), err error)
	// CopyOut enqueues a copy to host memory, CopyIn one to the device.
	CopyOut(dst []byte, src Ptr, p Pieces)
	CopyIn(dst Ptr, src []byte, p Pieces)
	// OrderCopies makes the copies enqueued from now on wait for all other work enqueued so far.
	OrderCopies()
	// MarkCopies names the copies enqueued so far. AwaitCopies makes all other work enqueued from now on
	// wait for those of a mark.
	MarkCopies() uint64
	AwaitCopies(mark uint64)
}

// hostBuffer is a kernels.Buffer in pinned host memory.
type hostBuffer struct {
	memory []byte
	free   func()
}

func (m *hostBuffer) Bytes() int64 { return int64(len(m.memory)) }

func (m *hostBuffer) Free() {
	if m.free != nil {
		m.free()
		m.memory, m.free = nil, nil
	}
}

// AllocHost reserves pinned host memory, which Save and Load alone take.
func (b *Backend) AllocHost(bytes int64) (kernels.Buffer, error) {
	if bytes < 1 {
		return nil, fmt.Errorf("%s: cannot allocate %d bytes of host memory", b.Name(), bytes)
	}
	memory, free, err := b.device.Pinned(int(bytes))
	if err != nil {
		return nil, err
	}
	return &hostBuffer{memory, free}, nil
}

// Save enqueues a copy from the device to host memory, of what is computed by then.
func (b *Backend) Save(c kernels.HostCopy) {
	b.ordered = false
	if p, ok := b.copyPieces(&c); ok {
		b.device.CopyOut(c.Host.(*hostBuffer).memory[c.HostOff:], c.Device.(*buffer).at+Ptr(c.DeviceOff), p)
	}
}

// Load enqueues a copy from host memory to the device, where what is computed so far may still be
// at work.
func (b *Backend) Load(c kernels.HostCopy) {
	if p, ok := b.copyPieces(&c); ok {
		b.device.CopyIn(c.Device.(*buffer).at+Ptr(c.DeviceOff), c.Host.(*hostBuffer).memory[c.HostOff:], p)
	}
}

// copyPieces checks a copy, and orders the first one since the last Sync or Await behind what is computed.
func (b *Backend) copyPieces(c *kernels.HostCopy) (Pieces, bool) {
	span := int64(c.Count-1)*c.Stride + c.Bytes
	if c.Count < 1 || c.Bytes < 1 || c.Stride < c.Bytes || c.DeviceOff < 0 || c.HostOff < 0 ||
		c.DeviceOff+span > c.Device.Bytes() || c.HostOff+span > c.Host.Bytes() {
		b.fail("a copy of %d pieces of %d bytes, %d apart, between %d of %d bytes on the device and %d of %d in host memory",
			c.Count, c.Bytes, c.Stride, c.DeviceOff, c.Device.Bytes(), c.HostOff, c.Host.Bytes())
		return Pieces{}, false
	}
	if !b.ordered {
		b.device.OrderCopies()
		b.ordered = true
	}
	return Pieces{Bytes: c.Bytes, Stride: c.Stride, Count: c.Count}, true
}

// Mark names the copies enqueued so far.
func (b *Backend) Mark() uint64 { return b.device.MarkCopies() }

// Await makes what is computed from now on wait for the copies of a mark.
func (b *Backend) Await(mark uint64) {
	b.device.AwaitCopies(mark)
	b.ordered = false
}
