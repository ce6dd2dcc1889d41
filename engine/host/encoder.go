package host

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/encoder"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/model"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// openEncoder describes an encoder to the device.
func (c *checkpoint) openEncoder(h *Host, m Model) (tenant, error) {
	options := encoder.Options{MaxLen: m.Prompts.MaxLen, ChunkRows: h.o.Passes.ChunkRows}
	if h.o.Loading != nil {
		options.Progress = func(done, total int64) { h.o.Loading(m.Name, done, total) }
	}
	opened, err := encoder.Open(c.config, c.files, h.store, options)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Path, err)
	}
	return &textEncoder{opened}, nil
}

// textEncoder is an encoder on the device.
type textEncoder struct{ *encoder.Model }

func (e *textEncoder) kind() kind { return encoders }

func (e *textEncoder) demand() demand {
	return demand{plan: model.Plan{Stage: e.Staged()}, encoder: e.Size()}
}

func (e *textEncoder) use(a *area) error { return e.Use(a.memory.(*encoder.Workspace)) }

func (e *textEncoder) place(a *area, _, _ int) error { return e.use(a) }

func (e *textEncoder) begin(run *wire.Run) (executor.Pass, error) {
	p, err := e.Begin(run)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// measure does nothing: the scheduler learns from passes.
func (e *textEncoder) measure(*Host, *hosted) (done bool, err error) { return true, nil }

func (e *textEncoder) fields() []zap.Field {
	return []zap.Field{zap.Stringer("weights", Mebibytes(e.Weights())), zap.Stringer("working_set", Mebibytes(e.Size().Total()))}
}
