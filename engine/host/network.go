package host

import (
	"errors"
	"slices"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// networkFile is the source of a network.
type networkFile struct{ *dnn.Network }

func (s *sources) readNetwork(file string, m Model) (source, error) {
	n, err := dnn.Read(file, dnn.Options(m.Frames))
	if err != nil {
		return nil, err
	}
	return &networkFile{n}, nil
}

func (f *networkFile) open(h *Host, m Model) (tenant, error) {
	if h.o.Blobs == nil {
		return nil, &OptionError{errors.New("nothing passes tensors to networks here")}
	}
	opened, err := dnn.Open(f.Network, h.store, h.o.Blobs)
	if err != nil {
		return nil, err
	}
	return &network{Model: opened}, nil
}

func (f *networkFile) unchanged(string) bool { return f.Current() == nil }

func (f *networkFile) forget() { _ = f.Close() } // it was only read

// network is a network on the device.
type network struct {
	*dnn.Model
	measuring *measuring // nil while nothing is measured
}

// DropChunk implements tenant.
func (n *network) DropChunk(i int) {
	n.endMeasuring()
	n.Model.DropChunk(i)
}

// Close implements tenant.
func (n *network) Close() {
	n.endMeasuring()
	n.Model.Close()
}

func (n *network) kind() kind { return networks }

func (n *network) demand() demand { return demand{frames: n.WorkBytes()} }

func (n *network) use(a *area) error {
	n.endMeasuring()
	return n.Use(a.memory.(*dnn.Workspace))
}

func (n *network) place(a *area, _, _ int) error { return n.use(a) }

func (n *network) begin(run *wire.Run) (executor.Pass, error) {
	p, err := n.Begin(run)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (n *network) fields() []zap.Field {
	return []zap.Field{zap.Stringer("weights", Mebibytes(n.Weights())), zap.Stringer("working_set", Mebibytes(n.WorkBytes()))}
}

// measure times passes of a few frames, and what larger ones and gradients cost beside, so that deadlines can be promised
// from the first job on. What was measured is kept in the cache directory, unless something disturbed it.
func (n *network) measure(h *Host, m *hosted) (done bool, err error) {
	if n.measuring == nil {
		n.measuring = newMeasuring(n.Model)
	}
	t := n.measuring
	if done, err = t.stepMeasuring(); err == nil && !done {
		return false, nil
	}
	n.endMeasuring()
	var ok bool
	if err == nil {
		m.fit, ok, err = t.measuredFit()
	}
	if !ok {
		return true, err
	}
	h.o.Log.Info("measured", zap.String("model", m.Name), zap.Duration("frame", m.fit.Unit), zap.Duration("base", m.fit.Base),
		zap.Duration("step", m.fit.Step), zap.Float64("growth", m.fit.Growth), zap.Float64("backward", m.fit.Backward), zap.Bool("disturbed", t.disturbed))
	if !t.disturbed {
		h.saveProfile(m, slices.Concat(t.frames, t.others, t.gradients))
	}
	return true, nil
}

// endMeasuring ends what is being measured, which begins anew then.
func (n *network) endMeasuring() {
	if n.measuring != nil {
		n.measuring.endTrial()
		n.measuring = nil
	}
}
