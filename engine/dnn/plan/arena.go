package plan

import (
	"cmp"
	"container/heap"
	"slices"
)

// alignment is that of tensors in the arena, in bytes.
const alignment = 64

// setLifetimes sets between which calls storages are needed: inputs from the first call on, outputs to the end.
func setLifetimes(calls []*call, inputs, outputs []view) {
	for _, v := range inputs {
		if v.at != nil {
			v.at.first = 0
		}
	}
	for i, c := range calls {
		writes, reads := c.touchedViews()
		for _, v := range append(slices.Clone(writes), reads...) {
			if v.at == nil || v.at.weight >= 0 {
				continue
			}
			if v.at.first < 0 {
				v.at.first = i
			}
			v.at.last = i
		}
	}
	for _, v := range outputs {
		if v.at != nil {
			v.at.first, v.at.last = max(0, v.at.first), len(calls)
		}
	}
}

// arenaStorages are those of the arena that calls, inputs and outputs use, each once.
func arenaStorages(calls []*call, inputs, outputs []view) (list []*storage) {
	seen := map[*storage]bool{}
	take := func(views []view) {
		for _, v := range views {
			if v.at == nil || v.at.weight >= 0 {
				continue
			}
			if s := v.at.rootStorage(); !seen[s] {
				seen[s] = true
				list = append(list, s)
			}
		}
	}
	take(inputs)
	for _, c := range calls {
		writes, reads := c.touchedViews()
		take(writes)
		take(reads)
	}
	take(outputs)
	return list
}

// maxFitted is how many storages are each held against all others, which takes the square of their number.
const maxFitted = 4096

// packStorages gives storages their places in the arena, and returns its size.
func packStorages(list []*storage) (bytes int64) {
	if len(list) > maxFitted {
		return packInOrder(list)
	}
	return packLargestFirst(list)
}

// packLargestFirst takes the largest storages first, each into the smallest gap that it fits in among those that are needed when it is.
func packLargestFirst(list []*storage) (bytes int64) {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *storage) int { return b.elements - a.elements })
	var placed []*storage // by their places
	for _, s := range list {
		s.off = smallestGap(placed, s)
		bytes = max(bytes, s.off+s.sizeBytes())
		at, _ := slices.BinarySearchFunc(placed, s.off, func(p *storage, off int64) int { return int(p.off - off) })
		placed = slices.Insert(placed, at, s)
	}
	return bytes
}

// sizeBytes is what a storage takes.
func (s *storage) sizeBytes() int64 { return (4*int64(s.elements) + alignment - 1) &^ (alignment - 1) }

// smallestGap is the place of the smallest gap for s.
func smallestGap(placed []*storage, s *storage) int64 {
	best, size, end := int64(-1), int64(0), int64(0)
	for _, p := range placed {
		if p.last < s.first || s.last < p.first {
			continue
		}
		if free := p.off - end; free >= s.sizeBytes() && (best < 0 || free < size) {
			best, size = end, free
		}
		end = max(end, p.off+p.sizeBytes())
	}
	if best < 0 {
		return end
	}
	return best
}

// packInOrder takes storages as they are needed, each into the smallest gap that there is then.
func packInOrder(list []*storage) (bytes int64) {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *storage) int { return a.first - b.first })
	var used ending
	var free gaps
	for _, s := range list {
		for len(used) > 0 && used[0].last < s.first {
			free.freeStorage(heap.Pop(&used).(*storage))
		}
		s.off = free.allocateBytes(s.sizeBytes(), bytes)
		bytes = max(bytes, s.off+s.sizeBytes())
		heap.Push(&used, s)
	}
	return bytes
}

// gaps are parts of an arena that are free, by their places; none adjoins another one.
type gaps []span

type span struct{ off, end int64 }

// allocateBytes is the place of so many bytes, in an arena of all bytes: in the smallest gap that has them, or at the end.
func (g *gaps) allocateBytes(bytes, all int64) int64 {
	best := -1
	for i, f := range *g {
		if f.end-f.off >= bytes && (best < 0 || f.end-f.off < (*g)[best].end-(*g)[best].off) {
			best = i
		}
	}
	last := len(*g) - 1
	switch {
	case best >= 0:
		off := (*g)[best].off
		if (*g)[best].off += bytes; (*g)[best].off == (*g)[best].end {
			*g = slices.Delete(*g, best, best+1)
		}
		return off
	case last >= 0 && (*g)[last].end == all:
		off := (*g)[last].off
		*g = (*g)[:last]
		return off
	}
	return all
}

// freeStorage frees what a storage has.
func (g *gaps) freeStorage(s *storage) {
	free := span{s.off, s.off + s.sizeBytes()}
	i, _ := slices.BinarySearchFunc(*g, free.off, func(f span, off int64) int { return cmp.Compare(f.off, off) })
	from, to := i, i
	if i > 0 && (*g)[i-1].end == free.off {
		from, free.off = i-1, (*g)[i-1].off
	}
	if i < len(*g) && (*g)[i].off == free.end {
		to, free.end = i+1, (*g)[i].end
	}
	*g = slices.Replace(*g, from, to, free)
}

// ending is a heap of storages, the one that is needed the shortest first.
type ending []*storage

func (e ending) Len() int           { return len(e) }
func (e ending) Less(i, j int) bool { return e[i].last < e[j].last }
func (e ending) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ending) Push(x any)        { *e = append(*e, x.(*storage)) }
func (e *ending) Pop() any {
	last := len(*e) - 1
	s := (*e)[last]
	*e = (*e)[:last]
	return s
}
