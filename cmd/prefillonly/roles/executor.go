package roles

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/settings"
	"github.com/prefillonly/prefillonly/engine/device"
	"github.com/prefillonly/prefillonly/engine/executor"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/modellist"
	"github.com/prefillonly/prefillonly/internal/telemetry"
)

// NewExecutor makes `prefillonly executor`, whose device open opens.
func NewExecutor(open Opener) *cobra.Command {
	command := &cobra.Command{
		Use:     "executor [MODEL...]",
		Short:   "Run a device's executor alone",
		Example: "  prefillonly executor --name cpu-1 --scheduler-endpoint tcp://10.0.0.1:7000 --curve-key-file e.key --curve-peers-file s.pub --model ./Qwen2.5-0.5B",
	}
	name := command.Flags().String("name", DefaultName("executor"), "name among the executors of one scheduler, stable over restarts")
	lines := command.Flags().Bool("loading-lines", false, "log the progress of loading by lines on a terminal too, for several executors on one")
	return settings.Reconfigured(command, config.Executor, func(s settings.Settings, log *zap.Logger) error {
		return runExecutor(s, open, *name, *lines, log)
	})
}

func runExecutor(s settings.Settings, openRunner Opener, name string, lines bool, log *zap.Logger) error {
	cfg := s.Config
	_, remove, err := Prepare(context.Background(), cfg, false, log)
	if err != nil {
		return err
	}
	defer remove()
	if err := NameGPUs(cfg, false, log); err != nil {
		return err
	}
	peer, err := dialScheduler(cfg, wire.RoleExecutor, log)
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
	v := NewVitals(name, lines, log)
	library, gpus := device.OwnGPUs(DeviceOptions(cfg, log))
	watched := v.Watch(ctx, library, gpus, stop, dieWithGPU)
	tensors := NewBlobs(cfg, outputsFor)
	defer tensors.Close()
	opened := make(chan device.Runner, 1)
	open := func() (executor.Runner, error) {
		r, err := openRunner(cfg, tensors, v, log)
		// Only now: until here a signal ends the process, however long opening takes.
		context.AfterFunc(stopSignal(ctx), func() { stop(nil) })
		if err == nil {
			opened <- r
		}
		return r, err
	}
	changes := make(chan func() error)
	var reloading sync.WaitGroup
	reloading.Go(func() { followModels(ctx, s, opened, changes, log) }) // ends with ctx
	err = executor.Run(ctx, executor.Config{Name: name, Heartbeat: heartbeat, Log: log, State: v.State, Alive: sayAlive, Changes: changes}, peer, open)
	stop(nil)
	reloading.Wait()
	<-watched
	if executor.DeviceLost(err) {
		return cli.Exit(cli.ExitLost, err)
	}
	return err
}

// followModels sets the models anew at each SIGHUP, from when the runner is open until ctx ends.
func followModels(ctx context.Context, s settings.Settings, opened <-chan device.Runner, changes chan<- func() error, log *zap.Logger) {
	var runner device.Runner
	select {
	case runner = <-opened:
	case <-ctx.Done():
		return
	}
	s.OnReload(ctx, func() { changeModels(ctx, s, runner, changes, log) })
}

// changeModels reads the configuration anew and has the executor's loop set its models; a mistake leaves all as it
// is.
func changeModels(ctx context.Context, s settings.Settings, runner device.Runner, changes chan<- func() error, log *zap.Logger) {
	next, _, _, err := s.Reread(s.Config)
	if err == nil {
		err = NameModelGPUs(next, log)
	}
	if err != nil {
		log.Error("the models are left as they are", zap.Error(err))
		return
	}
	list := modellist.Hosted(next)
	runner.Ahead(ctx, list)
	for again := true; again; { // a model that changes does so little by little, between passes
		changed := make(chan bool, 1)
		select {
		case changes <- func() error { defer close(changed); changed <- runner.SetModels(list); return nil }:
		case <-ctx.Done():
			return
		}
		select {
		case again = <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// dieWithGPU ends a process that its lost GPU does not let end.
func dieWithGPU(err error) {
	fmt.Fprintln(os.Stderr, "prefillonly: killed by itself, since the GPU does not let it end:", err)
	os.Exit(cli.ExitLost)
}
