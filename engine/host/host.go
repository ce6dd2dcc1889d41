// Package host runs the models of one device: it divides the device's memory among them, loads and drops
// their weights piece by piece as it is told, and begins their passes.
package host

import (
	"slices"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/executor/profile"
	"github.com/prefillonly/prefillonly/engine/model"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
)

// Options say on what models are hosted. All but Backend, Limits and Log may be left out.
type Options struct {
	Backend  kernels.Backend
	Limits   Limits
	Partial  bool          // there are models elsewhere: these may be none that can be run
	Passes   model.Options // of all LLMs: how many rows are computed together, and which streams are resident
	Blobs    dnn.Blobs     // where networks find inputs and leave outputs
	CacheDir string        // for profiles, and for digests of weights that are alike; empty keeps none
	Log      *zap.Logger

	// Check says what stands against running an LLM on the backend; Extra is the working memory that it takes
	// there beside its plan's, on each rank, where a block of its KV has so many bytes.
	Check func(weights.Config) error
	Extra func(c weights.Config, limits *wire.TokenLimits, block int64) (int64, error)
	// Loading is told of each part of a model that is loaded, and of how many bytes of its tensors are; also of
	// those that are compared with other models'.
	Loading func(model string, done, total int64)
}

// Host is an executor.Runner of LLMs, encoders and networks, and an executor.Saver. Its methods are called on one thread.
type Host struct {
	o       Options
	sources sources
	store   *store.Store
	areas   [kinds][]*area // the last one is for all models of its kind; others are let go when their passes have ended
	list    []*hosted      // in the order in which they were given
	gone    []*hosted      // removed, but for passes that are open

	positions positions
	told      int // positions that Info has told of
	rate      rate
}

// hosted is a model, and why it cannot be run or what of the device is its own.
type hosted struct {
	Model
	failed error // nil: it can be run
	demand demand
	fit    profile.Fit // of what its passes cost; zero: not known

	source  source   // nil if it could not be read
	tenant           // nil if it could not be opened
	chunks  []uint32 // the position of each of its chunks among all weights
	offered bool     // the scheduler may know of its pages
	ready   bool     // it was once
	next    *hosted  // what it is to be, while that is not all there; nil mostly
	refused bool     // that could not be opened, in this change of the models

	area             *area // nil while it has no memory
	pages, hostPages int
	open             int // passes
}

// Info implements executor.Runner.
func (h *Host) Info() wire.ExecutorInfo {
	for _, m := range h.list {
		for _, at := range m.chunks {
			h.told = max(h.told, int(at)+1)
		}
	}
	info := wire.ExecutorInfo{
		Device: h.o.Backend.Name(), Memory: uint64(h.weightRoom()), LoadRate: h.rate.bytesPerSecond(), CanPause: true, Nests: true,
		Weights: h.describeChunks()[:h.told],
	}
	for _, m := range h.list {
		info.Models = append(info.Models, m.modelInfo())
		m.offered = m.offered || m.failed == nil
	}
	return info
}

// describeChunks says of each piece how large it is, and whether all models that have it hold it.
func (h *Host) describeChunks() []wire.Weight {
	held, missing := make([]bool, len(h.positions.list)), make([]bool, len(h.positions.list))
	for _, m := range h.runnableModels() {
		for i, c := range m.Chunks() {
			at := m.chunks[i]
			if !c.Resident {
				missing[at] = true
				continue
			}
			held[at], h.positions.list[at].bytes = true, c.Bytes
		}
	}
	table := h.positions.weights()
	for at := range table {
		table[at].Resident = table[at].Resident || held[at] && !missing[at]
	}
	return table
}

// modelInfo describes the model to the scheduler.
func (m *hosted) modelInfo() wire.ModelInfo {
	if m.failed != nil {
		return wire.ModelInfo{Name: m.Name, Reason: m.failed.Error()}
	}
	info := m.Info()
	info.Name, info.Keep, info.Idle = m.Name, m.Keep, m.Idle
	info.Weights = m.chunkIndices()
	m.fit.Apply(&info)
	return info
}

// chunkIndices are those of the model's pieces, each once, in the order in which to load them.
func (m *hosted) chunkIndices() []uint32 {
	var list []uint32
	for _, at := range m.chunks {
		if !slices.Contains(list, at) {
			list = append(list, at)
		}
	}
	return list
}

// runnableModels are the models that can be run.
func (h *Host) runnableModels() []*hosted {
	return slices.DeleteFunc(slices.Clone(h.list), func(m *hosted) bool { return m.failed != nil })
}

// runnableModel is the model of this name that can be run, or why there is none.
func (h *Host) runnableModel(name string) (*hosted, error) {
	i := slices.IndexFunc(h.list, func(m *hosted) bool { return m.Name == name })
	if i < 0 {
		return nil, engine.Errorf(engine.CodeUnavailable, "there is no model %q on %s", name, h.o.Backend.Name())
	}
	if err := h.list[i].failed; err != nil {
		return nil, engine.Errorf(engine.CodeUnavailable, "model %s: %v", name, err)
	}
	return h.list[i], nil
}

// Begin implements executor.Runner.
func (h *Host) Begin(run *wire.Run) (executor.Pass, error) {
	m, err := h.runnableModel(run.Model)
	if err != nil {
		return nil, err
	}
	if !m.Ready() {
		return nil, engine.Errorf(engine.CodeUnavailable, "model %s: its weights are not all loaded", m.Name)
	}
	p, err := m.begin(run)
	if err != nil {
		return nil, err
	}
	m.open++
	return &pass{Pass: p, host: h, of: m}, nil
}

// pass is a model's pass, which the model knows of.
type pass struct {
	executor.Pass
	host *Host
	of   *hosted // nil once it is closed
}

// Prepare implements executor.Preparer.
func (p *pass) Prepare() func() {
	if of, ok := p.Pass.(executor.Preparer); ok {
		return of.Prepare()
	}
	return nil
}

// Close implements executor.Pass.
func (p *pass) Close() {
	m := p.of
	if m == nil {
		return
	}
	p.of = nil
	p.Pass.Close()
	if m.open--; m.open == 0 {
		p.host.releaseUnused()
	}
}

// Save implements executor.Saver.
func (h *Host) Save(name string, copies []wire.Copy) error {
	m, err := h.runnableModel(name)
	if err != nil {
		return err
	}
	s, ok := m.tenant.(saver)
	if !ok {
		return engine.Errorf(engine.CodeInternal, "model %s has no pages to save", name)
	}
	return s.Save(copies)
}

// Close implements executor.Runner.
func (h *Host) Close() {
	h.freeAll()
	h.o.Backend.Close()
}

// freeAll gives back all but the backend.
func (h *Host) freeAll() {
	for _, m := range slices.Concat(h.list, h.gone) {
		h.release(m)
	}
	h.sources.clearAhead()
	for k, list := range h.areas {
		for _, a := range list {
			a.memory.Free()
		}
		h.areas[k] = nil
	}
	h.list, h.gone = nil, nil
}

// release gives back all that is a model's.
func (h *Host) release(m *hosted) {
	if m.next != nil {
		h.release(m.next)
		m.next = nil
	}
	h.leavePositions(m)
	if m.tenant != nil {
		m.Close()
	}
	if m.source != nil {
		m.source.forget()
	}
	m.area, m.pages, m.hostPages, m.source = nil, 0, 0, nil
}
