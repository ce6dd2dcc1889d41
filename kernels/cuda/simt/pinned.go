package simt

import "github.com/prefillonly/prefillonly/kernels/cuda"

// pending is a copy out of pinned memory that is still to be done.
type pending struct {
	dst  cuda.Ptr
	src  []byte
	done bool
}

// UploadPinned copies as late as it may: when done is called, or something else is. Memory that is
// changed before then arrives changed.
func (d *Device) UploadPinned(dst cuda.Ptr, src []byte) (done func()) {
	p := &pending{dst: dst, src: src}
	d.pending = append(d.pending, p)
	return func() {
		for len(d.pending) > 0 && !p.done {
			d.copyNext()
		}
	}
}

// copyNext does the oldest of the pending copies.
func (d *Device) copyNext() {
	p := d.pending[0]
	d.pending = d.pending[1:]
	d.Upload(p.dst, p.src)
	p.done = true
}

// flush does all pending copies, in their order, before something that comes after them.
func (d *Device) flush() {
	for len(d.pending) > 0 {
		d.copyNext()
	}
}
