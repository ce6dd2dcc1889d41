package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/model"
	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/telemetry"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/cuda"
)

// newExecutorCommand makes `prefillonly executor`.
func newExecutorCommand() *cobra.Command {
	command := &cobra.Command{
		Use:     "executor [MODEL]",
		Short:   "Run a device's executor alone",
		Example: "  prefillonly executor --name cpu-1 --scheduler-endpoint tcp://10.0.0.1:7000 --curve-key-file e.key --curve-peers-file s.pub --model ./Qwen2.5-0.5B",
		Args:    cobra.MaximumNArgs(1),
	}
	name := command.Flags().String("name", defaultName("executor"), "name among the executors of one scheduler, stable over restarts")
	lines := command.Flags().Bool("loading-lines", false, "tell of loading by lines of the log on a terminal too, for several executors on one")
	return configured(command, config.Executor, func(cfg *config.Config, log *zap.Logger) error {
		return runExecutor(cfg, *name, *lines, log)
	})
}

func runExecutor(cfg *config.Config, name string, lines bool, log *zap.Logger) error {
	remove, err := prepareModel(cfg)
	if err != nil {
		return err
	}
	defer remove()
	if err := nameGPUs(cfg, false, log); err != nil {
		return err
	}
	peer, err := dial(cfg, wire.RoleExecutor, log)
	if err != nil {
		return err
	}
	defer peer.Close()
	debugging, err := telemetry.ServeDebug(cfg.DebugPort, debugExecutor, log)
	if err != nil {
		return err
	}
	defer debugging.Close()
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	v := &vitals{name: name, lines: lines}
	watched := watchGPU(ctx, cfg, v, stop, log)
	open := func() (executor.Runner, error) {
		r, err := openRunner(cfg, v, log)
		// Only now: until here a signal ends the process, however long loading takes.
		context.AfterFunc(stopSignal(ctx), func() { stop(nil) })
		return r, err
	}
	err = executor.Run(ctx, executor.Config{Name: name, Heartbeat: heartbeat, Log: log, State: v.state, Alive: sayAlive}, peer, open)
	stop(nil)
	<-watched
	if executor.DeviceLost(err) {
		return &exitError{exitLost, err}
	}
	return err
}

// openRunner makes the runner of the configured device.
var openRunner = func(cfg *config.Config, v *vitals, log *zap.Logger) (executor.Runner, error) {
	switch {
	case cfg.Device == "null":
		return openNull(cfg)
	case strings.HasPrefix(cfg.Device, "cuda"):
		return openCUDA(cfg, v, log)
	}
	return openCPU(cfg, v, log)
}

// openNull makes the runner without a model; it has the checkpoint's limits and no weights.
func openNull(cfg *config.Config) (executor.Runner, error) {
	c, err := weights.ReadConfig(cfg.Model)
	if err != nil {
		return nil, &exitError{exitConfig, err}
	}
	maxLen := c.MaxPositionEmbeddings
	if cfg.MaxModelLen > 0 {
		maxLen = int(cfg.MaxModelLen)
	}
	return executor.NewNull(wire.ExecutorInfo{
		Device: "null", Model: cfg.ServedModelName[0], Fingerprint: "null", VocabSize: c.VocabSize,
		MaxModelLen: maxLen, BlockTokens: cfg.BlockSize, NumBlocks: 1 << 20 / cfg.BlockSize, MaxPassRows: maxLen, CanPause: true, CopiesParts: true,
	}), nil
}

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

// openCPU loads the model on the processor and gives the prefix cache its share of what is left.
func openCPU(cfg *config.Config, v *vitals, log *zap.Logger) (executor.Runner, error) {
	backend, err := openCPUBackend(cfg)
	if err != nil {
		return nil, err
	}
	available, err := availableMemory()
	if err != nil {
		backend.Close()
		return nil, err
	}
	r, err := loadModel(cfg, backend, available/int64(cfg.Ranks), v, log)
	if err != nil {
		backend.Close()
		return nil, err
	}
	return r, nil
}

func openCPUBackend(cfg *config.Config) (kernels.Backend, error) {
	if cfg.Ranks > 1 {
		return openCPURanks(cfg)
	}
	backend, err := cpu.New(cpu.Config{Threads: cfg.Threads})
	if err != nil {
		return nil, &exitError{exitDevice, err}
	}
	return backend, nil
}

func modelOptions(cfg *config.Config) model.Options {
	o := model.Options{MaxLen: int(cfg.MaxModelLen), ChunkRows: cfg.PrefillChunk, BlockTokens: cfg.BlockSize}
	if strings.HasPrefix(cfg.Device, "cuda") {
		o.ResidentRows = model.GPURows
	}
	return o
}

// loadFailure is the exit code for what went wrong with loading: the device, its memory, or the model.
func loadFailure(err error) int {
	var memory *cuda.MemoryError
	switch {
	case executor.DeviceLost(err):
		return exitLost
	case errors.As(err, &memory):
		return exitMemory
	}
	return exitConfig
}

// loadModel loads a model into the available memory of a device, with the prefix cache beside it.
func loadModel(cfg *config.Config, backend kernels.Backend, available int64, v *vitals, log *zap.Logger) (*modelRunner, error) {
	checkpoint, err := weights.ReadConfig(cfg.Model)
	if err != nil {
		return nil, &exitError{exitConfig, err}
	}
	options := modelOptions(cfg)
	plan, err := model.Predict(checkpoint, backend, options)
	if err != nil {
		return nil, &exitError{exitConfig, fmt.Errorf("%s: %w", cfg.Model, err)}
	}
	if _, err := planPages(cfg, plan, available); err != nil { // before minutes of loading
		return nil, &exitError{exitMemory, err}
	}
	progress := newLoading(v, log)
	options.Progress = func(done, total int64) {
		sayAlive()
		progress.note(done, total)
	}
	options.Working = sayAlive
	m, err := model.Load(cfg.Model, backend, options)
	progress.end()
	if err != nil {
		return nil, &exitError{loadFailure(err), err}
	}
	pages, err := planPages(cfg, m.Plan(), available)
	if err == nil {
		err = m.NewPages(pages)
	}
	if err == nil && cfg.Offloading > 0 {
		err = offload(cfg, m)
	}
	if err != nil {
		code := exitMemory
		if executor.DeviceLost(err) {
			code = exitLost
		}
		m.Close()
		return nil, &exitError{code, err}
	}
	info := m.Info()
	info.Model = cfg.ServedModelName[0]
	if err := applyProfile(cfg, &info, log); err != nil {
		m.Close()
		return nil, err
	}
	log.Info("loaded", zap.String("model", cfg.Model), zap.String("device", info.Device),
		zap.Stringer("weights", mebibytes(m.Plan().Weights)), zap.Stringer("working_set", mebibytes(m.Plan().Work)),
		zap.Stringer("prefix_cache", mebibytes(int64(pages)*m.Plan().Block)), zap.Stringer("host_memory", mebibytes(int64(info.HostBlocks)*m.Plan().Block+m.Plan().Host)), zap.Stringer("available", mebibytes(available)))
	return &modelRunner{Model: m, backend: backend, info: info}, nil
}
