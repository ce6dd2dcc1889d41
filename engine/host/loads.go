package host

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/executor/profile"
)

// Load implements executor.Runner. A piece that other models have too is loaded for all of them; one that
// cannot be has failed, and can be run no more. With the last piece, what passes cost is measured if that is not known.
func (h *Host) Load(name string, weight uint32) (done bool, err error) {
	m, err := h.runnableModel(name)
	if err != nil {
		return false, err
	}
	if !slices.Contains(m.chunks, weight) {
		return false, engine.Errorf(engine.CodeInternal, "model %s has no piece %d of weights", name, weight)
	}
	if err = h.load(m, weight); err == nil {
		done, err = h.finishLoad(m, weight)
	}
	if executor.DeviceLost(err) {
		return false, err
	}
	if err != nil {
		h.o.Log.Error("model not loaded", zap.String("model", name), zap.Error(err))
		return false, engine.Errorf(engine.CodeUnavailable, "model %s: %v", name, err)
	}
	for _, other := range h.runnableModels() {
		if !done || other == m || !slices.Contains(other.chunks, weight) {
			continue
		}
		if err = other.load(weight); err == nil {
			done, err = h.finishLoad(other, weight)
		}
		if executor.DeviceLost(err) {
			return false, err
		}
		if err != nil {
			h.failModel(other, err)
			done = true
		}
	}
	return done, nil
}

// load loads a piece from the model's files, and takes note of how long that took.
func (h *Host) load(m *hosted, weight uint32) error {
	before, start := h.store.Bytes(), time.Now()
	if m.Ready() {
		return nil
	}
	if err := m.load(weight); err != nil {
		return err
	}
	h.rate.addTransfer(h.store.Bytes()-before, time.Since(start))
	return nil
}

// finishLoad goes on with what is to be done of a model whose last piece has come, and reports whether that is all.
func (h *Host) finishLoad(m *hosted, weight uint32) (done bool, err error) {
	if !m.Ready() || m.ready {
		return true, nil
	}
	if m.fit == (profile.Fit{}) {
		if done, err = m.measure(h, m); err != nil {
			m.dropWeight(weight)
		}
		if err != nil || !done {
			return false, err
		}
	}
	m.ready = true
	h.tellLoaded(m)
	return true, nil
}

// load makes the chunks at a position resident. After an error none is.
func (m *hosted) load(weight uint32) error {
	for i, at := range m.chunks {
		if at != weight {
			continue
		}
		if err := m.LoadChunk(i); err != nil {
			m.dropWeight(weight)
			return err
		}
	}
	return nil
}

func (m *hosted) dropWeight(weight uint32) {
	for i, at := range m.chunks {
		if at == weight {
			m.DropChunk(i)
		}
	}
}

// Drop implements executor.Runner.
func (h *Host) Drop(weights []uint32) {
	for _, m := range h.runnableModels() {
		for _, w := range weights {
			m.dropWeight(w)
			if m.next != nil {
				m.next.dropWeight(w)
			}
		}
	}
	for _, w := range weights {
		h.positions.dropped(w)
	}
}

// failModel takes a model out of service. None of its passes is open.
func (h *Host) failModel(m *hosted, err error) {
	h.o.Log.Error("model failed", zap.String("model", m.Name), zap.Error(err))
	m.failed = err
	h.release(m)
}

// rate is how fast weights are loaded, of late.
type rate struct {
	bytes   float64
	seconds float64
}

// forget is the share of what was measured before that counts less with each piece.
const forget = 1.0 / 64

func (r *rate) addTransfer(bytes int64, took time.Duration) {
	if bytes <= 0 || took <= 0 {
		return // it was there
	}
	r.bytes = (1-forget)*r.bytes + float64(bytes)
	r.seconds = (1-forget)*r.seconds + took.Seconds()
}

// bytesPerSecond is 0 before the first piece.
func (r *rate) bytesPerSecond() float64 {
	if r.seconds == 0 {
		return 0
	}
	return r.bytes / r.seconds
}

// tellLoaded logs that a model can be run for the first time.
func (h *Host) tellLoaded(m *hosted) {
	h.o.Log.Info("loaded", append([]zap.Field{
		zap.String("model", m.Path), zap.String("device", h.o.Backend.Name()), zap.Stringer("available", Mebibytes(h.o.Limits.Device)),
	}, m.fields()...)...)
}
