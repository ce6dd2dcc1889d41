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
