package host

import (
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/executor/profile"
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
	return &network{opened}, nil
}

func (f *networkFile) unchanged(string) bool { return f.Current() == nil }

func (f *networkFile) forget() { _ = f.Close() } // it was only read

// network is a network on the device.
type network struct{ *dnn.Model }

func (n *network) kind() kind { return networks }

func (n *network) demand() demand { return demand{frames: n.WorkBytes()} }

func (n *network) use(a *area) error { return n.Use(a.memory.(*dnn.Workspace)) }

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

// measuring is how long the passes that measure a cost may take together, about.
const measuring = 200 * time.Millisecond

// measure times passes of a few frames, and what gradients cost beside, so that deadlines can be promised from the
// first job on. What was measured is kept in the cache directory.
func (n *network) measure(h *Host, m *hosted) error {
	frames, err := n.samples(n.Batches(), false)
	if err != nil {
		return err
	}
	if len(frames) == 0 {
		return errors.New("a frame of its own shape needs more memory than it has")
	}
	var gradients []profile.Sample
	if n.Info().Tensors.Backward > 0 && frames[0].Took < measuring { // others are loaded sooner, with a guess
		if gradients, err = n.samples([]int{1}, true); err != nil {
			return err
		}
	}
	fit, err := profile.FitFrames(frames, gradients)
	if err != nil {
		return err
	}
	m.fit = fit
	h.o.Log.Info("measured", zap.String("model", m.Name), zap.Duration("frame", fit.Unit), zap.Duration("base", fit.Base),
		zap.Duration("step", fit.Step), zap.Float64("backward", fit.Backward))
	h.keep(m, slices.Concat(frames, gradients))
	return nil
}

// slow is a pass that is timed once, and in one batch only.
const slow = measuring / 4

// samples are the shortest of a few passes of each batch, since others may use the processor, too. What takes too much
// memory is left out.
func (n *network) samples(batches []int, backward bool) (list []profile.Sample, err error) {
	for _, frames := range batches {
		if _, _, err := n.Time(frames, backward); tooLarge(err) { // it also plans and packs, and warms caches
			continue
		} else if err != nil {
			return nil, err
		}
		s := profile.Sample{Input: frames}
		for i, spent := 0, time.Duration(0); i == 0 || i < 7 && spent < slow; i++ {
			took, step, err := n.Time(frames, backward)
			if err != nil {
				return nil, err
			}
			if spent += took; i == 0 || took < s.Took {
				s.Took = took
			}
			if i == 0 || step < s.Step {
				s.Step = step
			}
		}
		if list = append(list, s); s.Took >= slow {
			break
		}
	}
	return list, nil
}

func tooLarge(err error) bool {
	var known *engine.Error
	return errors.As(err, &known) && known.Code == engine.CodeTooLong
}
