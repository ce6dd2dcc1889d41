package model

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/kernels"
)

// GPURows is what Options.ResidentRows is for GPUs. Most prompts stay on the device whole. In longer ones
// a chunk's layer is to take longer than its copies: by arithmetic, 4,096 rows of 4,096 floats go there
// and back in 2.7 ms at the 50 GB/s of PCIe 5, and a layer of Llama-3.1-8B at 16,384 tokens takes an H200 3.4 ms.
const GPURows = 16 << 10

// stages is how many chunks of host memory's part have a place on the device at once: one is loaded and
// one is saved while one is computed.
const stages = 3

// streams is the memory of the residual streams of all open passes, float32, of whatever models: addresses
// below resident are bytes of the device's buffer, those from there on bytes of host memory. Chunks of passes in host
// memory take turns at the stages, which come after the resident bytes on the device.
type streams struct {
	resident, staged int64 // bytes on the device, and of a stage
	offloader        kernels.Offloader
	host             kernels.Buffer // nil if all is resident
	free             []extent       // by address, apart from each other

	turn  int            // chunks that have come through the stages
	saved [stages]uint64 // marks of the last copies out of each
}

// extent is addresses [from, to).
type extent struct{ from, to int64 }

// residualSlots is enough for a longest pass and for SpareRows rows of others.
func residualSlots(o Options) int { return o.chunks(o.MaxLen) + o.chunks(o.SpareRows) }

// residentSlots is how many of these the device keeps.
func residentSlots(o Options) int {
	all := residualSlots(o)
	if n := o.chunks(o.ResidentRows); o.ResidentRows > 0 && n+stages < all {
		return n
	}
	return all
}

// prepare lends all of it; what is on the device is allocated.
func (s *streams) prepare(b kernels.Backend, size workSize) error {
	s.resident, s.staged = size.resident, size.staged
	s.free = []extent{{0, size.resident}}
	if size.host == 0 {
		return nil
	}
	var ok bool
	if s.offloader, ok = b.(kernels.Offloader); !ok {
		return fmt.Errorf("%s cannot keep residual streams in host memory beside its own; let all rows be resident", b.Name())
	}
	var err error
	if s.host, err = s.offloader.AllocHost(size.host); err != nil {
		return fmt.Errorf("residual streams of %d bytes in host memory: %w", size.host, err)
	}
	s.free = append(s.free, extent{size.resident, size.resident + size.host})
	return nil
}

func (s *streams) release(b kernels.Backend) {
	if s.host == nil {
		return
	}
	for _, mark := range s.saved {
		s.offloader.Await(mark)
	}
	_ = b.Sync() // what failed has nobody left to be told
	s.host.Free()
	s.host = nil
}

// take lends so many bytes at the least address that has them.
func (s *streams) take(bytes int64) (at int64, ok bool) {
	for i := range s.free {
		if e := &s.free[i]; e.to-e.from >= bytes {
			at = e.from
			if e.from += bytes; e.from == e.to {
				s.free = slices.Delete(s.free, i, i+1)
			}
			return at, true
		}
	}
	return 0, false
}

// give takes bytes back.
func (s *streams) give(at, bytes int64) {
	back := extent{at, at + bytes}
	i, _ := slices.BinarySearchFunc(s.free, at, func(e extent, at int64) int { return cmp.Compare(e.from, at) })
	if i < len(s.free) && s.free[i].from == back.to && back.to != s.resident {
		back.to = s.free[i].to
		s.free = slices.Delete(s.free, i, i+1)
	}
	if i > 0 && s.free[i-1].to == at && at != s.resident {
		s.free[i-1].to = back.to
		return
	}
	s.free = slices.Insert(s.free, i, back)
}

// residuals are streams as a model's passes take them: in slots of a chunk each.
type residuals struct {
	*streams
	slot kernels.Mat // at the beginning of the device's part
}

func (r *residuals) rowBytes() int64  { return int64(r.slot.Stride) * r.slot.Type.Size() }
func (r *residuals) slotBytes() int64 { return int64(r.slot.Rows) * r.rowBytes() }

// take lends n slots, resident ones first.
func (r *residuals) take(n int) ([]int64, bool) {
	var slots []int64
	for range n {
		at, ok := r.streams.take(r.slotBytes())
		if !ok {
			for _, at := range slots {
				r.give(at)
			}
			return nil, false
		}
		slots = append(slots, at)
	}
	return slots, true
}

func (r *residuals) give(slot int64) { r.streams.give(slot, r.slotBytes()) }

// left is how many slots could be taken.
func (r *residuals) left() int {
	n := int64(0)
	for _, e := range r.free {
		n += (e.to - e.from) / r.slotBytes()
	}
	return int(n)
}

// spilled says whether a slot is in host memory.
func (r *residuals) spilled(slot int64) bool { return slot >= r.resident }

// place is where a resident slot is, and else where it will be at the stage.
func (r *residuals) place(slot int64, stage int) kernels.Mat {
	m := r.slot
	if m.Off = slot; r.spilled(slot) {
		m.Off = r.resident + int64(stage)*r.staged
	}
	return m
}

// copyOf is the copy between rows of a slot in host memory and the device.
func (r *residuals) copyOf(slot int64, row, rows int, at kernels.Mat) kernels.HostCopy {
	bytes := int64(rows) * r.rowBytes()
	return kernels.HostCopy{
		Device: at.Buf, DeviceOff: at.Off,
		Host: r.host, HostOff: slot - r.resident + int64(row)*r.rowBytes(),
		Bytes: bytes, Stride: bytes, Count: 1,
	}
}

// onDevice calls compute with the residual stream of the pass's i-th chunk on the device; those of a layer
// come one after the other. Chunks in host memory are loaded one ahead (which comes first in the order of
// copies, so before the chunk at work is saved), and saved where compute changes them. At the first layer there
// is nothing to load.
func (p *Pass) onDevice(i int, changes bool, compute func(c *chunk)) {
	if i == 0 {
		p.stage(0)
	}
	r, c := &p.m.work.residual, &p.chunks[i]
	if !r.spilled(c.slot) {
		compute(c)
		return
	}
	if p.layer == 0 {
		r.offloader.Await(r.saved[c.stage])
	} else {
		r.offloader.Await(c.loaded)
	}
	p.stage(i + 1)
	compute(c)
	if changes || p.layer == 0 {
		r.offloader.Save(r.copyOf(c.slot, 0, c.x.Rows, c.x))
		r.saved[c.stage] = r.offloader.Mark()
	}
}

// stage gives the next chunk in host memory, from a chunk on, its place on the device and begins to
// load it.
func (p *Pass) stage(from int) {
	r := &p.m.work.residual
	for i := from; i < len(p.chunks); i++ {
		c := &p.chunks[i]
		if !r.spilled(c.slot) {
			continue
		}
		c.stage = r.turn % stages
		r.turn++
		c.x = r.place(c.slot, c.stage).Slice(0, c.x.Rows)
		if p.layer > 0 {
			r.offloader.Load(r.copyOf(c.slot, 0, c.x.Rows, c.x))
			c.loaded = r.offloader.Mark()
		}
		return
	}
}

// unstage waits for the load that a pass which is dropped inside a layer has begun: its place on the device
// is the next pass's.
func (p *Pass) unstage() {
	if r := &p.m.work.residual; r.host != nil && !p.Boundary() {
		r.offloader.Await(r.offloader.Mark())
	}
}
