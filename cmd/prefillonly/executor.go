package main

import (
	"context"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/telemetry"
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
