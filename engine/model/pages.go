package model

import (
	"fmt"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
)

// pages hold the KV of kept blocks, block by block, within a block layer by layer.
type pages struct {
	buf   kernels.Buffer
	count int
	bytes int64 // of one layer's part of a page
	used  int64 // bytes up to the end of the last page that a pass had
}

// NewPages replaces the model's pages by n empty ones. The prefix cache is the caller's to size, out
// of what Plan leaves free.
func (m *Model) NewPages(n int) error {
	m.pages.freeBuffer()
	buf, err := m.backend.Alloc(int64(n) * int64(m.spec.Layers) * m.pages.bytes)
	if err != nil {
		return fmt.Errorf("prefix cache of %d blocks of %d bytes: %w", n, int64(m.spec.Layers)*m.pages.bytes, err)
	}
	m.pages.buf, m.pages.count = buf, n
	m.populatePages(nil)
	return nil
}

// populatePages asks for the memory of the pages that passes have had, and of those that come after them: the prefix cache takes free pages
// in order.
func (m *Model) populatePages(blocks []wire.BlockID) {
	backend, ok := m.backend.(kernels.Populator)
	if !ok || m.pages.buf == nil {
		return
	}
	for _, b := range blocks {
		m.pages.used = max(m.pages.used, (int64(b)+1)*m.pageBytes())
	}
	backend.Populate(m.pages.buf, m.pages.used)
}

func (p *pages) freeBuffer() {
	if p.buf != nil {
		p.buf.Free()
	}
	p.buf, p.count, p.used = nil, 0, 0
}

func (p *pages) kvBlock(id wire.BlockID, layer, layers int) kernels.KVBlock {
	return kernels.KVBlock{Buf: p.buf, Off: (int64(id)*int64(layers) + int64(layer)) * p.bytes}
}
