package host

import (
	"fmt"
	"slices"

	"go.uber.org/zap"
)

// SetModels makes the models those given, in that order. One that is there no longer takes no more passes,
// and gives its memory back when the last one is closed. A new one has its pages out of what weights leave
// free, which may be fewer than it had from the start. Of one that stays, Keep and Idle may change. One that is to change
// otherwise, or whose files have, goes on until what it is to be is there in its place: the same call is wanted again, as each
// does a little of that. An LLM, and what has no room beside itself, is removed, and the same call is wanted again after the
// scheduler was told: nothing that it knows of that model's pages holds any more.
func (h *Host) SetModels(models []Model) (again bool) {
	before := h.list
	h.list = nil
	changed := map[*hosted]Model{}
	for _, spec := range models {
		m := findModel(before, spec.Name)
		switch {
		case m == nil || !m.offered: // it is new, or tried anew
			continue
		case m.canStay(spec):
			m.Keep, m.Idle = spec.Keep, spec.Idle
		default:
			changed[m] = spec
		}
		h.list = append(h.list, m)
	}
	again, removed := h.changeModels(changed)
	for _, m := range before {
		if !slices.Contains(h.list, m) {
			h.leavePositions(m)
			h.gone = append(h.gone, m)
		}
	}
	h.releaseUnused()
	if removed {
		return true
	}
	for i, spec := range models {
		if findModel(h.list, spec.Name) == nil {
			h.list = slices.Insert(h.list, i, h.addModel(spec))
		}
	}
	h.sources.clearAhead()
	for _, m := range h.list {
		m.refused = m.refused && again
	}
	return again
}

// changeModels exchanges models of the list or removes them, and reports whether any is still to be exchanged, and removed ones
// to be added.
func (h *Host) changeModels(changed map[*hosted]Model) (again, removed bool) {
	var list []*hosted
	for _, m := range h.list {
		serving, more := m, false
		if spec, ok := changed[m]; ok && m.canBeExchanged() {
			serving, more = h.exchangeModel(m, spec)
		} else if ok {
			serving = nil
		}
		again = again || more
		if serving == nil {
			removed = true
		} else {
			list = append(list, serving)
		}
	}
	h.list = list
	return again, removed
}

// findModel is the model of a name, or nil.
func findModel(models []*hosted, name string) *hosted {
	i := slices.IndexFunc(models, func(m *hosted) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return models[i]
}

// canStay says whether a model may go on as it is.
func (m *hosted) canStay(spec Model) bool {
	prompts := spec.Prompts
	prompts.CacheShare = m.Prompts.CacheShare
	return m.failed == nil && m.Path == spec.Path && m.Prompts == prompts && m.Frames == spec.Frames && m.source.unchanged(m.Path)
}

// addModel opens a model and gives it memory beside those that are there, which keep theirs.
func (h *Host) addModel(spec Model) *hosted {
	m := h.open(spec)
	if m.failed == nil {
		m.failed = h.admitModel(m)
	}
	if m.failed != nil {
		h.o.Log.Error("model not added", zap.String("model", m.Name), zap.Error(m.failed))
		h.release(m)
	} else {
		h.o.Log.Info("model added", zap.String("model", m.Name), zap.Int("pages", m.pages))
	}
	return m
}

func (h *Host) admitModel(m *hosted) error {
	with := append(h.runnableModels(), m)
	p := planMemory(h.o.Limits, demandsOf(with))
	for _, err := range p.refused {
		if err != nil {
			return err
		}
	}
	if err := h.enlargeWorkspace(m); err != nil {
		return err
	}
	last, block := len(with)-1, max(1, m.demand.plan.Block)
	free := h.weightRoom() - max(h.store.Bytes(), p.least)
	if free < 0 {
		return &MemoryError{fmt.Errorf("%v are missing beside what other models have; drop one, or start anew", Mebibytes(-free))}
	}
	hostFree := max(0, h.hostRoom()/int64(h.o.Limits.Ranks))
	if err := h.place(m, int(min(int64(p.pages[last]), free/block)), int(min(int64(p.hostPages[last]), hostFree/block))); err != nil {
		return err
	}
	return h.adoptWeights(m)
}

// enlargeWorkspace makes new working memory where a model needs more than its kind has. Passes that are open go on in the
// old one, which goes with the last of them.
func (h *Host) enlargeWorkspace(m *hosted) error {
	k := m.kind()
	models := append(h.runnableModels(), m)
	next := measureAreas(models)[k]
	if n := len(h.areas[k]); n > 0 && h.areas[k][n-1].beside >= next.beside && m.use(h.areas[k][n-1]) == nil {
		return nil
	}
	if left := h.weightRoom() - next.bytes - h.store.Bytes(); left < 0 {
		return &MemoryError{fmt.Errorf("the working memory of passes takes %v, which are not free now, but %v: start anew", Mebibytes(next.bytes), Mebibytes(next.bytes+left))}
	}
	if err := h.makeWorkspace(k, models); err != nil {
		return err
	}
	h.releaseUnused()
	return nil
}

// adoptWeights makes what other models hold of the model's weights resident for it too. If that is all of them nothing is
// measured, which would hold up the device: the scheduler learns what passes cost.
func (h *Host) adoptWeights(m *hosted) error {
	table := h.describeChunks()
	for _, at := range m.chunkIndices() {
		if table[at].Resident {
			if err := m.load(at); err != nil {
				return err
			}
		}
	}
	if m.Ready() && !m.ready {
		m.ready = true
		h.tellLoaded(m)
	}
	return nil
}
