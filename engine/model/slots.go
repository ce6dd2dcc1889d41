package model

import "github.com/prefillonly/prefillonly/kernels"

// streamSlots are a streamMemory as the passes of one model take it: in slots of a chunk of rows each.
type streamSlots struct {
	*streamMemory
	Slot kernels.Mat // at the beginning of the device's part
}

func (s *streamSlots) rowBytes() int64  { return int64(s.Slot.Stride) * s.Slot.Type.Size() }
func (s *streamSlots) slotBytes() int64 { return int64(s.Slot.Rows) * s.rowBytes() }

// Take lends n slots, resident ones first.
func (s *streamSlots) Take(n int) ([]int64, bool) {
	var slots []int64
	for range n {
		at, ok := s.lendBytes(s.slotBytes())
		if !ok {
			for _, at := range slots {
				s.Give(at)
			}
			return nil, false
		}
		slots = append(slots, at)
	}
	return slots, true
}

// Give takes a slot back.
func (s *streamSlots) Give(slot int64) { s.returnBytes(slot, s.slotBytes()) }

// Left is how many slots could be taken.
func (s *streamSlots) Left() int {
	n := int64(0)
	for _, e := range s.free {
		n += (e.to - e.from) / s.slotBytes()
	}
	return int(n)
}

// Spilled says whether a slot is in host memory.
func (s *streamSlots) Spilled(slot int64) bool { return slot >= s.resident }

// Place is where a resident slot is, and else where it will be at a stage.
func (s *streamSlots) Place(slot int64, stage int) kernels.Mat {
	m := s.Slot
	if m.Off = slot; s.Spilled(slot) {
		m.Off = s.resident + int64(stage)*s.staged
	}
	return m
}

// Stage is the next one in turn. What was saved from there may still be on its way; see AwaitSaved.
func (s *streamSlots) Stage() int {
	stage := s.turn % streamStages
	s.turn++
	return stage
}

// Load begins to copy rows of a spilled slot to the device; the mark is for Await.
func (s *streamSlots) Load(slot int64, row int, to kernels.Mat) (mark uint64) {
	s.offloader.Load(s.copyOf(slot, row, to))
	return s.offloader.Mark()
}

// Save begins to copy a chunk from its stage to its slot.
func (s *streamSlots) Save(slot int64, stage int, from kernels.Mat) {
	s.offloader.Save(s.copyOf(slot, 0, from))
	s.saved[stage] = s.offloader.Mark()
}

// SaveRows begins to copy rows to a spilled slot; the mark is for Await.
func (s *streamSlots) SaveRows(slot int64, row int, from kernels.Mat) (mark uint64) {
	s.offloader.Save(s.copyOf(slot, row, from))
	return s.offloader.Mark()
}

// Await has the device wait for copies.
func (s *streamSlots) Await(mark uint64) { s.offloader.Await(mark) }

// AwaitSaved has the device wait until what was at a stage is saved.
func (s *streamSlots) AwaitSaved(stage int) { s.offloader.Await(s.saved[stage]) }

// Settle has the device wait for all copies on their way.
func (s *streamSlots) Settle() {
	if s.host != nil {
		s.offloader.Await(s.offloader.Mark())
	}
}

// copyOf is the copy between rows of a slot in host memory and the device.
func (s *streamSlots) copyOf(slot int64, row int, at kernels.Mat) kernels.HostCopy {
	bytes := int64(at.Rows) * s.rowBytes()
	return kernels.HostCopy{
		Device: at.Buf, DeviceOff: at.Off,
		Host: s.host, HostOff: slot - s.resident + int64(row)*s.rowBytes(),
		Bytes: bytes, Stride: bytes, Count: 1,
	}
}
