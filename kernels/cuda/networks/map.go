package networks

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/prefillonly/prefillonly/kernels"
)

// What ../src/map.cu has room for: slots in a block's shared memory, and views beside its other words.
const (
	sharedSlots = 8
	ownViews    = 8
)

// Blocks of a map whose slots lie in memory: enough to fill a GPU, so that the slots are few.
const slotBlocks = 512

// load is OP_LOAD of ../src/map.cu.
const load = 255

// instruction is pf_instruction.
type instruction struct {
	op, slot, a, b, c uint16
	x                 uint32
}

// assembly is a program with slots for its registers: each is free again after its last use.
type assembly struct {
	code  []instruction
	slots int
	free  []uint16
	slot  map[int]uint16 // of registers that are in one
}

// assemble gives registers slots; operands are loaded before they are first read.
func assemble(p *kernels.Program) (assembly, error) {
	a := assembly{slot: map[int]uint16{}}
	result := p.Operands + len(p.Code) - 1
	last := map[int]int{result: len(p.Code)} // instruction that reads a register last
	for i, in := range p.Code {
		for _, r := range []int{in.A, in.B, in.C}[:in.Op.Args()] {
			if r != result {
				last[r] = i
			}
		}
	}
	for i, in := range p.Code {
		to := p.Operands + i
		if _, read := last[to]; !read {
			continue
		}
		reads := []int{in.A, in.B, in.C}[:in.Op.Args()]
		var from [3]uint16
		for j, r := range reads {
			if _, in := a.slot[r]; !in {
				a.code = append(a.code, instruction{op: load, slot: a.take(r), x: uint32(r)})
			}
			from[j] = a.slot[r]
		}
		for _, r := range reads {
			if s, in := a.slot[r]; in && last[r] == i {
				a.free = append(a.free, s)
				delete(a.slot, r)
			}
		}
		a.code = append(a.code, instruction{uint16(in.Op), a.take(to), from[0], from[1], from[2], math.Float32bits(in.X)})
		if a.slots > math.MaxUint16 {
			return a, fmt.Errorf("a program needs more than %d numbers at a time", math.MaxUint16)
		}
	}
	return a, nil
}

// take gives a register a slot.
func (a *assembly) take(register int) uint16 {
	if n := len(a.free); n > 0 {
		a.slot[register] = a.free[n-1]
		a.free = a.free[:n-1]
	} else {
		a.slot[register] = uint16(a.slots)
		a.slots++
	}
	return a.slot[register]
}

// bytes are pf_instruction's, one after another.
func (a *assembly) bytes() []byte {
	var raw []byte
	for _, in := range a.code {
		for _, n := range []uint16{in.op, in.slot, in.a, in.b, in.c, 0} {
			raw = binary.LittleEndian.AppendUint16(raw, n)
		}
		raw = binary.LittleEndian.AppendUint32(raw, in.x)
	}
	return raw
}

// Map interprets the program.
func (o *Operations) Map(dst kernels.Tensor, p *kernels.Program, operands ...kernels.Tensor) {
	if !o.refused(kernels.CheckMap(dst, p, operands)) {
		o.mapTo(dst, p, operands)
	}
}

// mapTo is Map of operands that fit.
func (o *Operations) mapTo(dst kernels.Tensor, p *kernels.Program, operands []kernels.Tensor) {
	elements := dst.Elements()
	if elements == 0 {
		return
	}
	a, err := assemble(p)
	if o.refused(err) {
		return
	}
	o.tables.trim()
	code := o.tables.place(a.bytes())
	if code == 0 {
		return
	}
	views, more := o.views(merged(append([]kernels.Tensor{dst}, operands...)...))
	blocks, slots := (min(elements, most)+threads-1)/threads, uint64(0)
	if a.slots > sharedSlots {
		blocks = min(blocks, slotBlocks)
		if slots = o.device.Scratch(4 * int64(a.slots) * int64(blocks) * threads); slots == 0 {
			return
		}
	}
	w := o.words()
	w.add(elements)
	w.list = append(w.list, views.list[:kernels.MaxDims]...)
	w.list = append(w.list, code, uint64(len(a.code)), slots)
	w.list = append(w.list, views.list[kernels.MaxDims:]...)
	w.list = append(w.list, more)
	w.err = views.err
	switch {
	case w.err != nil:
	case elements > most:
		w.err = fmt.Errorf("%d elements, at the most %d", elements, most)
	default:
		o.device.Launch("pf_map", blocks, threads, w.list)
		return
	}
	o.device.Fail(fmt.Errorf("map: %w", w.err))
}

// views are the shape of all, the views of the result and of the first operands, and where those of others lie.
func (o *Operations) views(t []kernels.Tensor) (w words, more uint64) {
	w = o.words()
	w.places(t[0].Shape)
	for _, v := range t[:min(len(t), 1+ownViews)] {
		w.view(v)
	}
	for range 1 + ownViews - len(t) {
		w.add(make([]int, 1+kernels.MaxDims)...)
	}
	if len(t) <= 1+ownViews {
		return w, 0
	}
	others := o.words()
	for _, v := range t[1+ownViews:] {
		others.view(v)
	}
	if w.err == nil {
		w.err = others.err
	}
	var raw []byte
	for _, n := range others.list {
		raw = binary.LittleEndian.AppendUint64(raw, n)
	}
	return w, o.tables.place(raw)
}
