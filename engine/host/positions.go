package host

import (
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// positions are where pieces of weights are among all that the scheduler is told of. One that no model has any more becomes
// another piece's, but not before the scheduler has had it dropped, if it was there: a piece that is there when the scheduler
// hears of it must be where no Drop is on its way to.
type positions struct {
	list []position
	at   map[store.Key]uint32 // of those that models have
	free []uint32
}

type position struct {
	key     store.Key
	bytes   int64
	users   int
	leaving bool // the scheduler is to have it dropped
}

// take is the position of a piece, for one more model.
func (p *positions) take(c store.Info) uint32 {
	at, known := p.at[c.Key]
	switch last := len(p.free) - 1; {
	case known:
	case last >= 0:
		at, p.free = p.free[last], p.free[:last]
	default:
		at = uint32(len(p.list))
		p.list = append(p.list, position{})
	}
	if !known {
		p.at[c.Key], p.list[at] = at, position{key: c.Key, bytes: c.Bytes}
	}
	p.list[at].users++
	return at
}

// leave has a position with a model less; told says that the scheduler may take the piece for one that is there.
func (p *positions) leave(at uint32, told bool) {
	one := &p.list[at]
	if one.users--; one.users > 0 {
		return
	}
	delete(p.at, one.key)
	if one.leaving = told; !told {
		p.free = append(p.free, at)
	}
}

// dropped takes note that the scheduler has had a position dropped.
func (p *positions) dropped(at uint32) {
	if int(at) >= len(p.list) {
		return
	}
	if one := &p.list[at]; one.leaving && one.users == 0 {
		one.leaving = false
		p.free = append(p.free, at)
	}
}

// weights are the positions as the scheduler is told of them, where none is resident but those it is to have dropped.
func (p *positions) weights() []wire.Weight {
	table := make([]wire.Weight, len(p.list))
	for i, one := range p.list {
		table[i] = wire.Weight{Bytes: uint64(one.bytes), Resident: one.users == 0 && one.leaving}
	}
	return table
}
