package plan

import "slices"

// alignment is that of tensors in the arena, in bytes.
const alignment = 64

// lifetimes sets between which calls storages are needed: inputs from the first call on, outputs to the end.
func lifetimes(calls []*call, inputs, outputs []view) {
	for _, v := range inputs {
		if v.at != nil {
			v.at.first = 0
		}
	}
	for i, c := range calls {
		writes, reads := c.touches()
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

// storages are those of the arena that calls, inputs and outputs use, each once.
func storages(calls []*call, inputs, outputs []view) (list []*storage) {
	seen := map[*storage]bool{}
	take := func(views []view) {
		for _, v := range views {
			if v.at == nil || v.at.weight >= 0 {
				continue
			}
			if s := v.at.root(); !seen[s] {
				seen[s] = true
				list = append(list, s)
			}
		}
	}
	take(inputs)
	for _, c := range calls {
		writes, reads := c.touches()
		take(writes)
		take(reads)
	}
	take(outputs)
	return list
}

// pack gives storages their places in the arena, and returns its size: the largest come first, each into the
// smallest gap that it fits in among those that are needed when it is.
func pack(list []*storage) (bytes int64) {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *storage) int { return b.elements - a.elements })
	var placed []*storage // by their places
	for _, s := range list {
		s.off = gap(placed, s)
		bytes = max(bytes, s.off+s.bytes())
		at, _ := slices.BinarySearchFunc(placed, s.off, func(p *storage, off int64) int { return int(p.off - off) })
		placed = slices.Insert(placed, at, s)
	}
	return bytes
}

// bytes is what a storage takes.
func (s *storage) bytes() int64 { return (4*int64(s.elements) + alignment - 1) &^ (alignment - 1) }

// gap is the place of the smallest gap for s.
func gap(placed []*storage, s *storage) int64 {
	best, size, end := int64(-1), int64(0), int64(0)
	for _, p := range placed {
		if p.last < s.first || s.last < p.first {
			continue
		}
		if free := p.off - end; free >= s.bytes() && (best < 0 || free < size) {
			best, size = end, free
		}
		end = max(end, p.off+p.bytes())
	}
	if best < 0 {
		return end
	}
	return best
}
