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

// measure times passes of a few frames, and what gradients cost beside, so that deadlines can be promised from the
// first job on. What was measured is kept in the cache directory, unless something disturbed it.
func (n *network) measure(h *Host, m *hosted) error {
	var t timing
	frames, err := t.samples(n, n.Batches(), false)
	if err != nil {
		return err
	}
	if len(frames) == 0 {
		return errors.New("a frame of its own shape needs more memory than it has")
	}
	var gradients []profile.Sample
	if n.Info().Tensors.Backward > 0 && frames[0].Took < measuring { // others are loaded sooner, with a guess
		if gradients, err = t.samples(n, []int{1}, true); err != nil {
			return err
		}
	}
	if m.fit, err = profile.FitFrames(frames, gradients); err != nil {
		return err
	}
	h.o.Log.Info("measured", zap.String("model", m.Name), zap.Duration("frame", m.fit.Unit), zap.Duration("base", m.fit.Base),
		zap.Duration("step", m.fit.Step), zap.Float64("backward", m.fit.Backward), zap.Bool("disturbed", t.disturbed))
	if !t.disturbed {
		h.keep(m, slices.Concat(frames, gradients))
	}
	return nil
}

const (
	measuring = 200 * time.Millisecond // that the passes which measure a cost may take together, about
	slow      = measuring / 4          // a pass that is timed once, and in one batch only
	steady    = 1.2                    // how much longer than the shortest pass the second shortest takes at the most
)

// timing is how passes are timed.
type timing struct{ disturbed bool }

// samples are the shortest of a few passes of each batch, since others may use the processor, too. What takes too much
// memory is left out.
func (t *timing) samples(n *network, batches []int, backward bool) (list []profile.Sample, err error) {
	for _, frames := range batches {
		if _, _, err := n.Time(frames, backward); tooLarge(err) { // it also plans and packs, and warms caches
			continue
		} else if err != nil {
			return nil, err
		}
		s := profile.Sample{Input: frames}
		var took []time.Duration
		for spent := time.Duration(0); len(took) == 0 || len(took) < 7 && spent < slow; {
			one, step, err := n.Time(frames, backward)
			if err != nil {
				return nil, err
			}
			if spent += one; len(took) == 0 || step < s.Step {
				s.Step = step
			}
			took = append(took, one)
		}
		slices.Sort(took)
		s.Took = took[0]
		if len(took) > 1 && float64(took[1]) > steady*float64(took[0]) {
			t.disturbed = true
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
