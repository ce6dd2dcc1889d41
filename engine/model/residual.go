package model

import (
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

// residuals are the residual streams of all open passes, float32, in slots of ChunkRows rows. The
// first slots are in the device's memory. The others are in host memory, and take turns at the last
// places of mat.
type residuals struct {
	mat       kernels.Mat
	resident  int // slots on the device
	rows      int // of a slot
	offloader kernels.Offloader
	host      kernels.Buffer // nil if all slots are resident
	free      []int          // slots, those to be lent first at the end

	turn  int            // chunks that have come through the stages
	saved [stages]uint64 // marks of the last copies out of each
}

// residualSlots is enough for a longest pass and for SpareRows rows of others.
func residualSlots(o Options) int { return o.chunks(o.MaxLen) + o.chunks(o.SpareRows) }

// residentSlots is how many of these the device keeps, and places the slots that its memory must have.
func residentSlots(o Options) (resident, places int) {
	all := residualSlots(o)
	if n := o.chunks(o.ResidentRows); o.ResidentRows > 0 && n+stages < all {
		return n, n + stages
	}
	return all, all
}

// prepare lends all slots; mat is allocated.
func (r *residuals) prepare(b kernels.Backend, o Options) error {
	r.resident, _ = residentSlots(o)
	r.rows = o.ChunkRows
	all := residualSlots(o)
	for slot := all - 1; slot >= 0; slot-- {
		r.free = append(r.free, slot)
	}
	if r.resident == all {
		return nil
	}
	var ok bool
	if r.offloader, ok = b.(kernels.Offloader); !ok {
		return fmt.Errorf("%s cannot keep residual streams in host memory beside its own; let %d rows be resident", b.Name(), all*o.ChunkRows)
	}
	var err error
	if r.host, err = r.offloader.AllocHost(int64(all-r.resident) * r.slotBytes()); err != nil {
		return fmt.Errorf("residual streams of %d rows in host memory: %w", (all-r.resident)*o.ChunkRows, err)
	}
	return nil
}

func (r *residuals) release(b kernels.Backend) {
	if r.host == nil {
		return
	}
	for _, mark := range r.saved {
		r.offloader.Await(mark)
	}
	_ = b.Sync() // what failed has nobody left to be told
	r.host.Free()
	r.host = nil
}

func (r *residuals) rowBytes() int64  { return int64(r.mat.Stride) * r.mat.Type.Size() }
func (r *residuals) slotBytes() int64 { return int64(r.rows) * r.rowBytes() }

// take lends n slots, resident ones first.
func (r *residuals) take(n int) ([]int, bool) {
	if n > len(r.free) {
		return nil, false
	}
	slots := slices.Clone(r.free[len(r.free)-n:])
	slices.Reverse(slots)
	r.free = r.free[:len(r.free)-n]
	return slots, true
}

// give takes a slot back, to be lent next if it is resident, and else last.
func (r *residuals) give(slot int) {
	if r.spilled(slot) {
		r.free = slices.Insert(r.free, 0, slot)
	} else {
		r.free = append(r.free, slot)
	}
}

// spilled says whether a slot is in host memory.
func (r *residuals) spilled(slot int) bool { return slot >= r.resident }

// place is where a resident slot is, and else where it will be at the stage.
func (r *residuals) place(slot, stage int) kernels.Mat {
	if r.spilled(slot) {
		slot = r.resident + stage
	}
	return r.mat.Slice(slot*r.rows, (slot+1)*r.rows)
}

// copyOf is the copy between rows of a slot in host memory and the device.
func (r *residuals) copyOf(slot, row, rows int, at kernels.Mat) kernels.HostCopy {
	bytes := int64(rows) * r.rowBytes()
	return kernels.HostCopy{
		Device: at.Buf, DeviceOff: at.Off,
		Host: r.host, HostOff: int64(slot-r.resident)*r.slotBytes() + int64(row)*r.rowBytes(),
		Bytes: bytes, Stride: bytes, Count: 1,
	}
}

// eachChunk calls compute with the residual stream of each chunk of the pass on the device. Chunks in
// host memory are loaded one ahead (which comes first in the order of copies, so before the chunk at
// work is saved), and saved where compute changes them. At the first layer there is nothing to load.
func (p *Pass) eachChunk(changes bool, compute func(c *chunk)) {
	r := &p.m.work.residual
	p.stage(0)
	for i := range p.chunks {
		p.m.working()
		c := &p.chunks[i]
		if !r.spilled(c.slot) {
			compute(c)
			continue
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
