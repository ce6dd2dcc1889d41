package model

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
)

// pages hold the KV of kept blocks, block by block, within a block layer by layer.
type pages struct {
	buf   kernels.Buffer
	count int
	bytes int64 // of one layer's part of a page
}

// NewPages replaces the model's pages by n empty ones. The prefix cache is the caller's to size, out
// of what Plan leaves free.
func (m *Model) NewPages(n int) error {
	m.pages.free()
	buf, err := m.backend.Alloc(int64(n) * int64(m.spec.layers) * m.pages.bytes)
	if err != nil {
		return fmt.Errorf("prefix cache of %d blocks of %d bytes: %w", n, int64(m.spec.layers)*m.pages.bytes, err)
	}
	m.pages.buf, m.pages.count = buf, n
	return nil
}

func (p *pages) free() {
	if p.buf != nil {
		p.buf.Free()
	}
	p.buf, p.count = nil, 0
}

func (p *pages) block(id wire.BlockID, layer, layers int) kernels.KVBlock {
	return kernels.KVBlock{Buf: p.buf, Off: (int64(id)*int64(layers) + int64(layer)) * p.bytes}
}

// spans lends out ranges of [0, size), first fit.
type spans struct {
	size int
	used []span // sorted, disjoint
}

type span struct{ from, to int }

func (s *spans) take(n int) (span, bool) {
	from := 0
	for i := 0; i <= len(s.used); i++ {
		to := s.size
		if i < len(s.used) {
			to = s.used[i].from
		}
		if to-from >= n {
			taken := span{from, from + n}
			s.used = slices.Insert(s.used, i, taken)
			return taken, true
		}
		if i < len(s.used) {
			from = s.used[i].to
		}
	}
	return span{}, false
}

func (s *spans) release(r span) {
	s.used = slices.DeleteFunc(s.used, func(u span) bool { return u == r })
}

// free is the longest range that take would give.
func (s *spans) free() int {
	longest, from := 0, 0
	for _, u := range s.used {
		longest, from = max(longest, u.from-from), u.to
	}
	return max(longest, s.size-from)
}
