package cuda

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/prefillonly/prefillonly/kernels"
)

// What src/program.h has room for: slots in a block's shared memory, and views beside its other words.
const (
	sharedSlots = 8
	ownViews    = 8
)

// Blocks of a map whose slots lie in memory: enough to fill a GPU, so that the slots are few.
const slotBlocks = 512

// OP_GIVEN and OP_LOAD of src/program.h.
const given, load = 254, 255

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

// assembleProgram gives registers slots; operands are loaded before they are first read, of which as many as are at hand
// come first and are not loaded: none or one.
func assembleProgram(p *kernels.Program, atHand int) (assembly, error) {
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
				a.code = append(a.code, elementOperand(r, atHand, a.assignSlot(r)))
			}
			from[j] = a.slot[r]
		}
		for _, r := range reads {
			if s, in := a.slot[r]; in && last[r] == i {
				a.free = append(a.free, s)
				delete(a.slot, r)
			}
		}
		a.code = append(a.code, instruction{uint16(in.Op), a.assignSlot(to), from[0], from[1], from[2], math.Float32bits(in.X)})
		if a.slots > math.MaxUint16 {
			return a, fmt.Errorf("a program needs more than %d numbers at a time", math.MaxUint16)
		}
	}
	return a, nil
}

// elementOperand is the instruction that puts an operand into a slot.
func elementOperand(register, atHand int, slot uint16) instruction {
	if register < atHand {
		return instruction{op: given, slot: slot}
	}
	return instruction{op: load, slot: slot, x: uint32(register - atHand)}
}

// assignSlot gives a register a slot.
func (a *assembly) assignSlot(register int) uint16 {
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
func (o *networkOperations) Map(dst kernels.Tensor, p *kernels.Program, operands ...kernels.Tensor) {
	if !o.refused(kernels.CheckMap(dst, p, operands)) {
		o.mapTo(dst, p, operands)
	}
}

// mapTo is Map of operands that fit.
func (o *networkOperations) mapTo(dst kernels.Tensor, p *kernels.Program, operands []kernels.Tensor) {
	elements := dst.Elements()
	a, err := assembleProgram(p, 0)
	if o.refused(err) || elements == 0 {
		return
	}
	blocks, slots := (min(elements, mostElements)+blockThreads-1)/blockThreads, uint64(0)
	if a.slots > sharedSlots {
		blocks = min(blocks, slotBlocks)
		if slots = o.device.Scratch(4 * int64(a.slots) * int64(blocks) * blockThreads); slots == 0 {
			return
		}
	}
	t := mergeDims(append([]kernels.Tensor{dst}, operands...)...)
	w := o.newWords()
	w.addInts(elements)
	w.list = append(w.list, slots)
	w.addView(t[0])
	o.program(&w, a, t[0].Shape, t[1:])
	o.launchBlocks("pf_map", elements, blocks, w)
}

// program adds pf_program, of operands that are not at hand.
func (o *networkOperations) program(w *words, a assembly, shape []int, operands []kernels.Tensor) {
	o.tables.trimToLimit()
	w.list = append(w.list, o.tables.place(a.bytes()), uint64(len(a.code)))
	w.addShape(shape)
	for _, v := range operands[:min(len(operands), ownViews)] {
		w.addView(v)
	}
	for range ownViews - len(operands) {
		w.addInts(make([]int, 1+kernels.MaxDims)...)
	}
	more := words{device: o.device, err: w.err}
	for _, v := range operands[min(len(operands), ownViews):] {
		more.addView(v)
	}
	var raw []byte
	for _, n := range more.list {
		raw = binary.LittleEndian.AppendUint64(raw, n)
	}
	w.list, w.err = append(w.list, o.tables.place(raw)), more.err
}

// noProgram adds pf_program that does nothing.
func (w *words) noProgram() {
	w.addInts(make([]int, 2+kernels.MaxDims+ownViews*(1+kernels.MaxDims)+1)...)
}
