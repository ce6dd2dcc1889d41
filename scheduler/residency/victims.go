package residency

import (
	"cmp"
	"math"
	"slices"
)

// victim is a resident chunk that may make room.
type victim struct {
	chunk *chunk
	kind  int     // in Memory.kinds
	key   float64 // of its best whole user; +Inf if none has a demand
	sum   int64   // of its bytes and of those before it
}

// victimKind is the chunks that go one after the other, the last ones first: those of one model, as a rule. There are few, so that
// it is they that are sorted.
type victimKind struct {
	kindKey
	number int // its place in Memory.kinds before they are sorted
	count  int // of chunks
}

// kindKey is what chunks of a kind have in common: whether a whole model has them, the key of the best that has a demand, and when
// one was used last.
type kindKey struct {
	whole bool
	key   float64
	used  uint64
}

// compare orders victims: first what belongs to no whole model, then what the worst demands use, then what was used longest ago.
func (k *victimKind) compare(o *victimKind) int {
	switch {
	case k.whole != o.whole && k.whole:
		return 1
	case k.whole != o.whole:
		return -1
	}
	return cmp.Or(cmp.Compare(o.key, k.key), cmp.Compare(k.used, o.used))
}

// gatherVictims lists the victims, those that go first at the beginning.
func (m *Memory) gatherVictims() {
	m.listVictims()
	order := m.kinds
	slices.SortFunc(order, func(k, o victimKind) int { return k.compare(&o) })
	from := 0
	for _, k := range order {
		m.starts[k.number] = from
		from += k.count
	}
	m.sorted = slices.Grow(m.sorted[:0], len(m.victims))[:len(m.victims)]
	for _, v := range m.victims {
		m.sorted[m.starts[v.kind]] = v
		m.starts[v.kind]++
	}
	m.victims, m.sorted = m.sorted, m.victims
	sum := int64(0)
	m.unused = 0
	for i := range m.victims {
		sum += m.victims[i].chunk.bytes
		m.victims[i].sum = sum
		if m.victims[i].key > math.MaxFloat64 {
			m.unused = sum
		}
	}
}

// listVictims lists the victims, those of greatest id first, and their kinds.
func (m *Memory) listVictims() {
	m.victims, m.kinds = m.victims[:0], m.kinds[:0]
	clear(m.kindOf)
	last := -1
	for _, c := range m.resident {
		if c.keeps > 0 || c.round == m.round && c.fixed {
			continue
		}
		k := kindKey{c.whole > 0, math.Inf(1), c.used}
		if c.round == m.round {
			k.key = c.key
		}
		if last < 0 || m.kinds[last].kindKey != k {
			last = m.findKind(k)
		}
		m.kinds[last].count++
		m.victims = append(m.victims, victim{chunk: c, kind: last, key: k.key})
	}
	m.starts = slices.Grow(m.starts[:0], len(m.kinds))[:len(m.kinds)]
}

// findKind is the place of a kind among those that are listed, at whose end it is put if it is new.
func (m *Memory) findKind(k kindKey) int {
	i, ok := m.kindOf[k]
	if !ok {
		i = len(m.kinds)
		m.kindOf[k] = i
		m.kinds = append(m.kinds, victimKind{kindKey: k, number: i})
	}
	return i
}

// victimBar is the key that a chunk's must exceed to make room for a model.
func (x *model) victimBar() float64 {
	if x.kept {
		return math.Inf(-1)
	}
	return x.key
}

// countVictimsAbove returns how many victims have greater keys than the bar.
func (m *Memory) countVictimsAbove(bar float64) int {
	from, to := 0, len(m.victims)
	for from < to {
		if mid := (from + to) / 2; m.victims[mid].key > bar {
			from = mid + 1
		} else {
			to = mid
		}
	}
	return from
}
