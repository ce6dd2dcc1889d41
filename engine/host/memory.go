package host

import (
	"slices"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/model"
)

// area is the working memory of passes, and what it takes: of each rank, and of host memory.
type area struct {
	*model.Workspace
	bytes, host int64
	beside      int64 // of bytes: what is not the Workspace's
}

// divide divides the memory among all models that could be opened.
func (h *Host) divide() error {
	opened := h.running()
	p := divide(h.o.Limits, demands(opened))
	for i, m := range opened {
		m.failed = p.refused[i]
	}
	if len(h.running()) == 0 {
		return nil
	}
	if err := h.compute(h.running()); err != nil {
		return err
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

func demands(models []*hosted) []demand {
	list := make([]demand, len(models))
	for i, m := range models {
		list[i] = m.demand
	}
	return list
}

// compute makes working memory for passes of the models.
func (h *Host) compute(models []*hosted) error {
	a, plans := measure(models)
	var err error
	if a.Workspace, err = model.NewWorkspace(h.o.Backend, plans...); err != nil {
		return memoryError(err)
	}
	h.areas = append(h.areas, a)
	return nil
}

// measure says how much working memory models take together.
func measure(models []*hosted) (*area, []model.Plan) {
	var f fitting
	plans := make([]model.Plan, len(models))
	for i, m := range models {
		f, plans[i] = *f.with(&m.demand), m.demand.plan
	}
	return &area{bytes: f.work, beside: f.work - f.shared, host: f.host}, plans
}

// place gives a model working memory and pages.
func (h *Host) place(m *hosted, pages, hostPages int) error {
	a := h.areas[len(h.areas)-1]
	err := m.model.Use(a.Workspace)
	if err == nil {
		err = m.model.NewPages(pages)
	}
	if err == nil && hostPages > 0 && pages > 0 {
		err = m.model.NewHostPages(hostPages)
	}
	if err != nil {
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

// room is what weights may take of each rank.
func (h *Host) room() int64 {
	left := h.o.Limits.Device
	for _, a := range h.areas {
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
	for _, a := range h.areas {
		left -= a.host * int64(h.o.Limits.Ranks)
	}
	for _, m := range slices.Concat(h.list, h.gone) {
		left -= int64(m.hostPages) * m.demand.plan.Block * int64(h.o.Limits.Ranks)
	}
	return left
}

// settle lets go of what no pass needs any more: models that were removed, and working memory that was
// replaced.
func (h *Host) settle() {
	h.gone = slices.DeleteFunc(h.gone, func(m *hosted) bool {
		if m.open > 0 {
			return false
		}
		h.release(m)
		return true
	})
	if len(h.areas) < 2 {
		return
	}
	newest := h.areas[len(h.areas)-1]
	for _, m := range h.running() {
		if m.open == 0 && m.area != newest && m.model.Use(newest.Workspace) == nil {
			m.area = newest
		}
	}
	h.areas = slices.DeleteFunc(h.areas, func(a *area) bool {
		uses := func(m *hosted) bool { return m.area == a }
		if a == newest || slices.ContainsFunc(h.list, uses) || slices.ContainsFunc(h.gone, uses) {
			return false
		}
		a.Free()
		return true
	})
}

// tellPlan logs where the memory goes.
func (h *Host) tellPlan(p plan) {
	pages := map[string]int{}
	for _, m := range h.running() {
		pages[m.Name] = m.pages
	}
	h.o.Log.Info("memory planned", zap.String("device", h.o.Backend.Name()), zap.Stringer("available", Mebibytes(h.o.Limits.Device)),
		zap.Stringer("working_set", Mebibytes(p.work)), zap.Stringer("prefix_caches", Mebibytes(p.caches)),
		zap.Stringer("room_for_weights", Mebibytes(h.room())), zap.Stringer("weights", Mebibytes(p.all)),
		zap.Stringer("host_memory", Mebibytes(h.o.Limits.Host-h.hostRoom())), zap.Any("pages", pages))
}
