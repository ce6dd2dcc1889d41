package host

import (
	"errors"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/executor/profile"
)

// canBeExchanged says whether a model that is to be another may go on until that is all there. An LLM may not: the scheduler
// takes its pages for those of the other, and there is no room for both caches.
func (m *hosted) canBeExchanged() bool { return m.failed == nil && m.kind() != prompts }

// exchangeModel goes on with making a model that spec's: opened beside it, loaded piece by piece, and then in its place. It
// returns what serves, and whether the same call is wanted again; nil if there is no room for both. One that cannot be
// opened leaves the model as it is.
func (h *Host) exchangeModel(m *hosted, spec Model) (serving *hosted, again bool) {
	if m.refused {
		return m, false
	}
	done, err := h.advanceExchange(m, spec)
	next := m.next
	if done {
		err = h.adoptWeights(next)
	}
	switch {
	case err == nil && !done:
		return m, true
	case err == nil:
		m.next, next.offered = nil, true
		h.o.Log.Info("model exchanged", zap.String("model", m.Name), zap.Int("passes", m.open))
		return next, false
	}
	h.release(next)
	m.next = nil
	var memory *MemoryError
	if errors.As(err, &memory) {
		return nil, true
	}
	m.refused = true
	h.o.Log.Error("model left as it is: what it is to be cannot be opened", zap.String("model", m.Name), zap.Error(err))
	return m, false
}

// advanceExchange opens what a model is to be, or loads the next piece of it, or measures it; it reports whether all is done.
func (h *Host) advanceExchange(m *hosted, spec Model) (done bool, err error) {
	n := m.next
	if n == nil {
		n = &hosted{Model: spec}
		m.next = n
		if n.failed = h.read(n); n.failed == nil {
			n.failed = h.admitModel(n)
		}
		return false, n.failed
	}
	if !m.Ready() {
		return true, nil // the scheduler has it loaded when it is asked for
	}
	for i, c := range n.Chunks() {
		if c.Resident {
			continue
		}
		if h.weightRoom()-h.store.Bytes() < c.Bytes {
			return true, nil // the scheduler makes room
		}
		return false, n.LoadChunk(i)
	}
	if n.fit == (profile.Fit{}) && !n.ready {
		if done, err := n.measure(h, n); err != nil || !done {
			return false, err
		}
	}
	return true, nil
}
