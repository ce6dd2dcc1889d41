package device

import (
	"fmt"
	"strings"

	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/model"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"go.uber.org/zap"
)

// modelRunner is a model as the executor's Runner.
type modelRunner struct {
	*model.Model
	backend kernels.Backend
	info    wire.ExecutorInfo
}

func (r *modelRunner) Info() wire.ExecutorInfo { return r.info }

func (r *modelRunner) Begin(run *wire.Run) (executor.Pass, error) {
	p, err := r.Model.Begin(run)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (r *modelRunner) Close() {
	r.Model.Close()
	r.backend.Close()
}

func modelOptions(o Options) model.Options {
	m := model.Options{MaxLen: o.MaxModelLen, ChunkRows: o.PrefillChunk, BlockTokens: o.BlockSize, Working: o.Working}
	if strings.HasPrefix(o.Device, "cuda") {
		m.ResidentRows = model.GPURows
	}
	return m
}

// loadModel loads a model into the available memory of a device, with the prefix cache beside it.
func loadModel(o Options, backend kernels.Backend, available int64) (*modelRunner, error) {
	checkpoint, err := weights.ReadConfig(o.Model)
	if err != nil {
		return nil, &Error{Model, err}
	}
	options := modelOptions(o)
	plan, err := model.Predict(checkpoint, backend, options)
	if err != nil {
		return nil, &Error{Model, fmt.Errorf("%s: %w", o.Model, err)}
	}
	if _, err := planPages(o, plan, available); err != nil { // before minutes of loading
		return nil, &Error{Memory, err}
	}
	loaded := func() {}
	if o.Loading != nil {
		options.Progress, loaded = o.Loading()
	}
	m, err := model.Load(o.Model, backend, options)
	loaded()
	if err != nil {
		return nil, &Error{loadFailure(err), err}
	}
	pages, err := planPages(o, m.Plan(), available)
	if err == nil {
		err = m.NewPages(pages)
	}
	if err == nil && o.Offloading > 0 {
		err = offload(o, m)
	}
	if err != nil {
		cause := Memory
		if executor.DeviceLost(err) {
			cause = Lost
		}
		m.Close()
		return nil, &Error{cause, err}
	}
	info := m.Info()
	info.Model = o.Name
	if err := applyProfile(o, &info); err != nil {
		m.Close()
		return nil, err
	}
	o.Log.Info("loaded", zap.String("model", o.Model), zap.String("device", info.Device),
		zap.Stringer("weights", mebibytes(m.Plan().Weights)), zap.Stringer("working_set", mebibytes(m.Plan().Work)),
		zap.Stringer("prefix_cache", mebibytes(int64(pages)*m.Plan().Block)), zap.Stringer("host_memory", mebibytes(int64(info.HostBlocks)*m.Plan().Block+m.Plan().Host)), zap.Stringer("available", mebibytes(available)))
	return &modelRunner{Model: m, backend: backend, info: info}, nil
}
