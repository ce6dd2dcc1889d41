package cuda

import (
	"encoding/binary"

	"github.com/prefillonly/prefillonly/kernels"
)

// A stream has slots pieces of pinned memory: one that is copied, one that is full, and others that
// are being filled, since one reader alone is slower than a disk.
const (
	slots     = 5
	slotBytes = 8 << 20
)

// heldSize is the number of bytes that an element takes on the device.
func heldSize(t kernels.DType) int {
	if t.Scaled() {
		return 1
	}
	return 2
}

// stream fills device memory with weights: readers put pieces into pinned memory, converted, while
// pieces before them are on their way to the device.
type stream struct {
	device Device
	memory []byte
	free   func()
	copied [slots]func() // waits for the last copy out of a slot; nil without one
}

// streamTo returns the backend's stream, which lives as long as the backend: taking its memory may last
// longer than loading a layer.
func (b *Backend) streamTo() (*stream, error) {
	if b.stream != nil {
		return b.stream, nil
	}
	memory, free, err := b.device.Pinned(slots * slotBytes)
	if err != nil {
		return nil, err
	}
	b.stream = &stream{device: b.device, memory: memory, free: free}
	return b.stream, nil
}

// endCopies waits for the stream's copies.
func (b *Backend) endCopies() {
	if b.stream != nil {
		for slot := range slots {
			b.stream.waitSlot(slot)
		}
	}
}

// endStream frees the pinned memory when its copies have ended.
func (b *Backend) endStream() {
	if b.endCopies(); b.stream != nil {
		b.stream.free()
		b.stream = nil
	}
}

func (s *stream) waitSlot(slot int) {
	if done := s.copied[slot]; done != nil {
		done()
		s.copied[slot] = nil
	}
}

func (s *stream) slotMemory(i int) []byte {
	return s.memory[i*slotBytes : (i+1)*slotBytes]
}

// uploadTensor enqueues t in the form in which the device holds it. When it returns all of t has been read, and the last copies may be on
// their way.
func (s *stream) uploadTensor(dst Ptr, t kernels.HostTensor) error {
	const lag = slots - 1 // pieces that are being filled or are full
	size := heldSize(t.Type)
	elements, most := len(t.Data)/int(t.Type.Size()), slotBytes/size
	pieces := (elements + most - 1) / most
	var filled [slots]chan error
	var failed error
	for i := 0; i < pieces+lag; i++ {
		if full := i - lag; full >= 0 && full < pieces {
			slot := full % slots
			if err := <-filled[slot]; err != nil && failed == nil {
				failed = err
			}
			n := min(most, elements-full*most)
			if failed == nil {
				s.copied[slot] = s.device.UploadPinned(dst+Ptr(full*slotBytes), s.slotMemory(slot)[:n*size])
			}
		}
		if i < pieces {
			slot := i % slots
			s.waitSlot(slot)
			from, to := i*most, min((i+1)*most, elements)
			result := make(chan error, 1)
			filled[slot] = result
			go func() { result <- convertElements(s.slotMemory(slot), t, from, to) }() // its result is taken above
		}
	}
	return failed
}

// convertElements reads elements [from, to) of t in the form in which the device holds them.
func convertElements(dst []byte, t kernels.HostTensor, from, to int) error {
	size := int(t.Type.Size())
	part := t.Data[from*size : to*size]
	if t.Type == kernels.BF16 || t.Type.Scaled() {
		return t.ReadPart(dst[:len(part)], part)
	}
	raw := make([]byte, len(part))
	if err := t.ReadPart(raw, part); err != nil {
		return err
	}
	for i := range to - from {
		var value [1]float32
		kernels.Expand(value[:], t.Type, raw[i*size:])
		binary.LittleEndian.PutUint16(dst[2*i:], roundBF16(value[0]))
	}
	return nil
}

// ReadsFiles says that tensors are read from their files, matrices into pinned memory.
func (b *Backend) ReadsFiles() bool { return true }
