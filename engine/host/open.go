package host

import (
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/weights/catalog"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// OptionError is about a value that somebody gave, not about a model's files.
type OptionError struct{ Err error }

func (e *OptionError) Error() string { return e.Err.Error() }
func (e *OptionError) Unwrap() error { return e.Err }

// Open hosts models: it reads their configurations and headers and takes all memory but that of their
// weights. One that cannot be run does not hinder the others, and Info says why; where none can be, and o.Partial is not set, the
// first one's reason is the error. The host then closes o.Backend.
func Open(o Options, models []Model) (*Host, error) {
	h := &Host{o: o, store: store.New(o.Backend), positions: positions{at: map[store.Key]uint32{}}}
	h.sources = sources{catalog: catalog.New(o.CacheDir), check: o.Check, loading: o.Loading}
	for _, m := range models {
		h.list = append(h.list, h.open(m))
	}
	err := h.divideMemory()
	if err == nil && !o.Partial && len(models) > 0 && len(h.runnableModels()) == 0 {
		err = h.list[0].failed
	}
	if err != nil {
		h.freeAll()
		return nil, err
	}
	for _, m := range h.list {
		if m.failed != nil {
			h.o.Log.Error("model cannot be run", zap.String("model", m.Name), zap.Error(m.failed))
		}
	}
	return h, nil
}

// open reads what a model is. One that fails is hosted too, with the reason.
func (h *Host) open(spec Model) *hosted {
	m := &hosted{Model: spec}
	m.failed = h.read(m)
	return m
}

func (h *Host) read(m *hosted) error {
	var err error
	if m.source, err = h.sources.takeSource(m.Model); err != nil {
		return err
	}
	if m.tenant, err = m.source.open(h, m.Model); err != nil {
		return err
	}
	for _, c := range m.Chunks() {
		m.chunks = append(m.chunks, h.positions.take(c))
	}
	m.demand = m.tenant.demand()
	m.demand.always = m.Keep == wire.KeepAlways
	for _, at := range m.chunkIndices() {
		m.demand.pieces = append(m.demand.pieces, piece{at, h.positions.list[at].bytes})
	}
	return h.loadProfile(m)
}

// leavePositions takes a model's pieces from those that the scheduler is told of.
func (h *Host) leavePositions(m *hosted) {
	if m.chunks == nil {
		return
	}
	for i, c := range m.Chunks() {
		h.positions.leave(m.chunks[i], m.offered && c.Resident)
	}
	m.chunks = nil
}
