package residency

import (
	"fmt"
	"slices"
)

// TooLarge says that a model can never be on the device, whatever makes room for it.
type TooLarge struct {
	Model    ModelID
	Needs    int64 // bytes: its weights and its work area
	Kept     int64 // bytes of weights that it does not share and that are always kept
	Capacity int64 // bytes
}

func (e *TooLarge) Error() string {
	return fmt.Sprintf("residency: model %d needs %d bytes for its weights and a pass; the device has %d, of which %d are always kept for others",
		e.Model, e.Needs, e.Capacity, e.Kept)
}

// Register adds a model, with nothing of it loaded but the chunks that others have brought. It returns *TooLarge for
// one that cannot be run even alone beside those that are always kept, and for one to keep beside which some other
// could no longer be run.
func (m *Memory) Register(id ModelID, s Spec) error {
	if id < 0 || m.modelByID(id) != nil {
		return fmt.Errorf("residency: model %d is negative or registered already", id)
	}
	if s.Area < 0 || s.Rate <= 0 && len(s.Chunks) > 0 {
		return fmt.Errorf("residency: model %d has a work area of %d bytes and is loaded at %g bytes/s", id, s.Area, s.Rate)
	}
	for _, p := range s.Chunks {
		if c := m.chunkByID(p.Chunk); p.Chunk < 0 || p.Bytes < 0 || c != nil && c.bytes != p.Bytes {
			return fmt.Errorf("residency: invalid chunk %d of model %d, of %d bytes: want a number and a size of at least 0, and the size that other models say", p.Chunk, id, p.Bytes)
		}
	}
	x := &model{id: id, area: s.Area, rate: s.Rate, keep: s.Keep}
	for _, p := range s.Chunks {
		m.addChunk(x, p)
	}
	m.models = growToIndex(m.models, int(id))
	m.models[id] = x
	if x.keep {
		m.keepers = append(m.keepers, x)
	}
	if x.isWhole() {
		x.adjustWholeCounts(1)
	}
	if err := m.checkFits(x); err != nil {
		m.Remove(id)
		return err
	}
	return nil
}

// addChunk makes a chunk one of a model's.
func (m *Memory) addChunk(x *model, p SizedChunk) {
	m.chunks = growToIndex(m.chunks, int(p.Chunk))
	c := m.chunks[p.Chunk]
	if c == nil {
		c = &chunk{id: p.Chunk, bytes: p.Bytes}
		m.chunks[p.Chunk] = c
	}
	if slices.Contains(c.users, x) {
		return
	}
	c.users = append(c.users, x)
	x.chunks = append(x.chunks, c)
	x.bytes += c.bytes
	if c.state != resident {
		x.lacks++
		x.missing += c.bytes
	}
	if c.state == absent {
		x.gone++
		x.absent += c.bytes
	}
	if x.keep {
		c.keeps++
		if c.keeps == 1 {
			m.kept += c.bytes
		}
	}
}

// checkFits says whether a new model can be run alone, and if it is to be kept, every other one beside it.
func (m *Memory) checkFits(x *model) error {
	for _, y := range m.models {
		if y == nil || y != x && !x.keep {
			continue
		}
		kept := m.kept
		for _, c := range y.chunks {
			if c.keeps > 0 {
				kept -= c.bytes
			}
		}
		if needs := y.bytes + y.area; needs > m.capacity-kept {
			return &TooLarge{Model: y.id, Needs: needs, Kept: kept, Capacity: m.capacity}
		}
	}
	return nil
}

// Remove forgets a model that has no pass, and returns the chunks that are to be dropped, as no other has them.
func (m *Memory) Remove(id ModelID) (drop []Chunk) {
	x := m.modelByID(id)
	if x == nil {
		return nil
	}
	if x.isWhole() {
		x.adjustWholeCounts(-1)
	}
	m.models[id] = nil
	if m.target == x {
		m.target = nil
	}
	m.keepers = slices.DeleteFunc(m.keepers, func(y *model) bool { return y == x })
	for _, c := range x.chunks {
		c.users = slices.DeleteFunc(c.users, func(y *model) bool { return y == x })
		if x.keep {
			c.keeps--
			if c.keeps == 0 {
				m.kept -= c.bytes
			}
		}
		if len(c.users) > 0 {
			continue
		}
		if c.state == resident {
			m.setChunkState(c, absent)
			drop = append(drop, c.id)
		}
		if c.state == absent {
			m.chunks[c.id] = nil
		}
	}
	return drop
}

// growToIndex returns a slice that has an element at index i.
func growToIndex[T any](s []*T, i int) []*T {
	if i < len(s) {
		return s
	}
	return append(s, make([]*T, i+1-len(s))...)
}
