package kerneltest

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// Offloading is a Backend with host memory, for tests of what keeps blocks there: it makes each copy as
// late as its marks allow, so that what does not wait for a copy misses it.
type Offloading struct {
	kernels.Backend
	pending []func()
	done    uint64
}

var _ kernels.Offloader = (*Offloading)(nil)

// hostBuffer is ordinary memory.
type hostBuffer struct{ memory []byte }

func (b *hostBuffer) Bytes() int64 { return int64(len(b.memory)) }
func (b *hostBuffer) Free()        { b.memory = nil }

// AllocHost implements kernels.Offloader.
func (o *Offloading) AllocHost(bytes int64) (kernels.Buffer, error) {
	return &hostBuffer{make([]byte, bytes)}, nil
}

// Save implements kernels.Offloader.
func (o *Offloading) Save(c kernels.HostCopy) {
	o.enqueueCopy(c, func(host []byte, off int64) { o.Read(host, c.Device, off) })
}

// Load implements kernels.Offloader.
func (o *Offloading) Load(c kernels.HostCopy) {
	o.enqueueCopy(c, func(host []byte, off int64) { o.Write(c.Device, off, host) })
}

func (o *Offloading) enqueueCopy(c kernels.HostCopy, piece func(host []byte, off int64)) {
	o.pending = append(o.pending, func() {
		for i := range int64(c.Count) {
			piece(c.Host.(*hostBuffer).memory[c.HostOff+i*c.Stride:][:c.Bytes], c.DeviceOff+i*c.Stride)
		}
	})
}

// Mark implements kernels.Offloader.
func (o *Offloading) Mark() uint64 { return o.done + uint64(len(o.pending)) }

// Await implements kernels.Offloader.
func (o *Offloading) Await(mark uint64) {
	for ; o.done < mark; o.done++ {
		o.pending[0]()
		o.pending = o.pending[1:]
	}
}

// RunOffloader tests the copies of a backend that is a kernels.Offloader.
func RunOffloader(t *testing.T, open Open) {
	const pieces, size, stride, gap = 5, 96, 160, 32
	b := open(t)
	o := b.(kernels.Offloader)
	host, err := o.AllocHost(2 * pieces * stride)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Free()
	device, err := b.Alloc(2 * pieces * stride)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Free()
	random := rand.New(rand.NewPCG(3, 4))
	content := make([]byte, device.Bytes())
	for i := range content {
		content[i] = byte(random.Uint32())
	}
	b.Write(device, 0, content)
	out := kernels.HostCopy{Device: device, Host: host, DeviceOff: gap, HostOff: stride, Bytes: size, Stride: stride, Count: pieces}
	o.Save(out)
	o.Await(o.Mark())
	b.Write(device, 0, make([]byte, len(content))) // too late to be saved
	back := out
	back.DeviceOff = gap + pieces*stride - stride
	o.Load(back)
	o.Await(o.Mark())
	got, want := make([]byte, len(content)), make([]byte, len(content))
	for i := range pieces {
		copy(want[back.DeviceOff+int64(i)*stride:][:size], content[gap+i*stride:])
	}
	b.Read(got, device, 0)
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("what was saved and loaded again is other bytes, or in other places")
	}
}
