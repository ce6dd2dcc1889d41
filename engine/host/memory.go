package host

import (
	"slices"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/encoder"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/model"
)

// area is the working memory of passes of a kind, and what it takes: of each rank, and of host memory.
type area struct {
	memory      interface{ Free() } // *model.Workspace, *encoder.Workspace or *dnn.Workspace
	bytes, host int64
	beside      int64 // of bytes: what is not the memory's
}

// divideMemory divides the memory among all models that could be opened.
func (h *Host) divideMemory() error {
	opened := h.runnableModels()
	p := planMemory(h.o.Limits, demandsOf(opened))
	for i, m := range opened {
		m.failed = p.refused[i]
	}
	for k := range kinds {
		if !slices.ContainsFunc(h.runnableModels(), func(m *hosted) bool { return m.kind() == k }) {
			continue
		}
		if err := h.makeWorkspace(k, h.runnableModels()); err != nil {
			return err
		}
	}
	for i, m := range opened {
		if m.failed != nil {
			continue
		}
		if err := h.place(m, p.pages[i], p.hostPages[i]); err != nil {
			return err
		}
	}
	h.tellPlan(p)
	return nil
}

func demandsOf(models []*hosted) []demand {
	list := make([]demand, len(models))
	for i, m := range models {
		list[i] = m.demand
	}
	return list
}

// makeWorkspace makes working memory for passes of those of the models that are of a kind.
func (h *Host) makeWorkspace(k kind, models []*hosted) (err error) {
	a := measureAreas(models)[k]
	switch k {
	case networks:
		a.memory, err = dnn.NewWorkspace(h.o.Backend, a.bytes)
	case encoders:
		a.memory, err = encoder.NewWorkspace(h.o.Backend, a.bytes-a.beside)
	default:
		var plans []model.Plan
		for _, m := range models {
			plans = append(plans, m.demand.plan)
		}
		a.memory, err = model.NewWorkspace(h.o.Backend, plans...)
	}
	if err != nil {
		return memoryError(err)
	}
	h.areas[k] = append(h.areas[k], a)
	return nil
}

// measureAreas says how much working memory the models of each kind take together.
func measureAreas(models []*hosted) [kinds]*area {
	var f fitting
	for _, m := range models {
		f = *f.withDemand(&m.demand)
	}
	others := f.work - f.encoder.Total() - f.frames
	return [kinds]*area{
		prompts:  {bytes: others, beside: others - f.shared, host: f.host},
		encoders: {bytes: f.encoder.Total(), beside: f.encoder.Scratch},
		networks: {bytes: f.frames},
	}
}

// place gives a model working memory and pages.
func (h *Host) place(m *hosted, pages, hostPages int) error {
	all := h.areas[m.kind()]
	a := all[len(all)-1]
	if err := m.tenant.place(a, pages, hostPages); err != nil {
		return memoryError(err)
	}
	m.area, m.pages, m.hostPages = a, pages, hostPages
	return nil
}

// memoryError says of an error that the device had less memory than it said, unless it is lost.
func memoryError(err error) error {
	if executor.DeviceLost(err) {
		return err
	}
	return &MemoryError{err}
}

// weightRoom is what weights may take of each rank.
func (h *Host) weightRoom() int64 {
	left := h.o.Limits.Device
	for _, a := range slices.Concat(h.areas[:]...) {
		left -= a.bytes
	}
	for _, m := range slices.Concat(h.list, h.gone) {
		left -= int64(m.pages) * m.demand.plan.Block
	}
	return max(0, left)
}

// hostRoom is how much host memory is left, for all ranks.
func (h *Host) hostRoom() int64 {
	left := h.o.Limits.Host
	for _, a := range slices.Concat(h.areas[:]...) {
		left -= a.host * int64(h.o.Limits.Ranks)
	}
	for _, m := range slices.Concat(h.list, h.gone) {
		left -= int64(m.hostPages) * m.demand.plan.Block * int64(h.o.Limits.Ranks)
	}
	return left
}

// releaseUnused lets go of what no pass needs any more: models that were removed, and working memory that was
// replaced.
func (h *Host) releaseUnused() {
	h.gone = slices.DeleteFunc(h.gone, func(m *hosted) bool {
		if m.open > 0 {
			return false
		}
		h.release(m)
		return true
	})
	for k := range kinds {
		if len(h.areas[k]) > 1 {
			h.areas[k] = h.renewedAreas(k)
		}
	}
}

// renewedAreas is the areas of a kind that are needed yet, once its models that can have moved to the newest.
func (h *Host) renewedAreas(k kind) []*area {
	newest := h.areas[k][len(h.areas[k])-1]
	for _, m := range h.runnableModels() {
		if m.kind() == k && m.open == 0 && m.area != newest && m.use(newest) == nil {
			m.area = newest
		}
	}
	return slices.DeleteFunc(h.areas[k], func(a *area) bool {
		uses := func(m *hosted) bool { return m.area == a }
		if a == newest || slices.ContainsFunc(h.list, uses) || slices.ContainsFunc(h.gone, uses) {
			return false
		}
		a.memory.Free()
		return true
	})
}

// tellPlan logs where the memory goes.
func (h *Host) tellPlan(p plan) {
	pages := map[string]int{}
	for _, m := range h.runnableModels() {
		if m.kind() == prompts {
			pages[m.Name] = m.pages
		}
	}
	h.o.Log.Info("memory planned", zap.String("device", h.o.Backend.Name()), zap.Stringer("available", Mebibytes(h.o.Limits.Device)),
		zap.Stringer("working_set", Mebibytes(p.work)), zap.Stringer("prefix_caches", Mebibytes(p.caches)),
		zap.Stringer("room_for_weights", Mebibytes(h.weightRoom())), zap.Stringer("weights", Mebibytes(p.all)),
		zap.Stringer("host_memory", Mebibytes(h.o.Limits.Host-h.hostRoom())), zap.Any("pages", pages))
}
