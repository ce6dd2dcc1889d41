package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/blob"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/modellist"
	"github.com/prefillonly/prefillonly/internal/supervise"
)

// grace is how long a process may take from SIGTERM to its end, drain aside.
const grace = 5 * time.Second

// newServeCommand makes `prefillonly serve`.
func newServeCommand() *cobra.Command {
	return reconfigured(&cobra.Command{
		Use:   "serve [MODEL...]",
		Short: "Serve models over HTTP, with all processes on this host",
		Long: `Serves OpenAI's API on --port. Frontend, scheduler and executor run as child processes; one that dies
is started again and its work is run again. Of several models each is on the device when requests want it.
SIGTERM finishes open requests first, a second one stops at once. SIGHUP reads the configuration anew and
adds, removes and changes models.`,
		Example: `  prefillonly serve                                      the built-in demo model on port 8000
  prefillonly serve ./Qwen2.5-0.5B --port 9000           a Hugging Face checkpoint
  prefillonly serve ./Qwen2.5-0.5B judge=./Qwen3-4B      two, which requests call Qwen2.5-0.5B and judge
  prefillonly serve --host 0.0.0.0 --api-key-file keys   open to other hosts, with keys
  prefillonly serve ./Llama-3.3-70B --device cuda:0,1 --tensor-parallel-size 2
                                                         one model over two GPUs
  prefillonly serve --config configs/serve.yaml          parameters from a file`,
	}, config.Serve, runServe)
}

func runServe(s settings, log *zap.Logger) error {
	// Before anything else, so that no signal is missed.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)

	cfg, given := s.Config, *s.Config
	failed, remove, err := prepare(cfg, log)
	if errors.Is(err, context.Canceled) {
		log.Info("ended while the models were fetched", zap.Error(err))
		return nil
	}
	if err != nil {
		return err
	}
	defer remove()
	modellist.Report(cfg, failed, log)
	if _, err := apiKeys(cfg); err != nil {
		return cli.Exit(cli.ExitConfig, err)
	}
	if _, err := traceSettings(cfg, ""); err != nil {
		return err
	}
	if err := nameGPUs(cfg, true, log); err != nil {
		return err
	}
	if err := modellist.CheckHosted(cfg); err != nil {
		return err
	}
	if err := modellist.Write(cfg); err != nil {
		return err
	}
	if cfg.Endpoint == "" {
		cfg.Endpoint = "ipc://" + filepath.Join(cfg.RuntimeDir, "scheduler.sock")
	}
	if path, ok := strings.CutPrefix(cfg.Endpoint, "ipc://"); ok {
		if err := blob.CheckDir(filepath.Dir(path)); err != nil {
			return cli.Exit(cli.ExitConfig, fmt.Errorf("--runtime-dir: %w", err))
		}
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port)))
	if err != nil {
		return fmt.Errorf("%w; choose another --port", err)
	}
	defer listener.Close()
	cfg.Port = listener.Addr().(*net.TCPAddr).Port
	socket, err := supervise.Socket(listener.(*net.TCPListener)) // of all frontends: whichever lives takes a waiting connection
	if err != nil {
		return err
	}
	defer socket.Close()
	log.Info("starting", zap.String("version", version), zap.String("model", modellist.Names(cfg)),
		zap.String("device", cfg.Device), zap.String("url", "http://"+listener.Addr().String()))

	g := newGroup(cfg, socket, log)
	g.Name = modellist.Names(cfg)
	g.Ready = func() { log.Info("ready", zap.Int("port", cfg.Port)) }
	g.Stopping = func() { // the port is the frontends' alone: closed when they close it
		listener.Close()
		socket.Close()
	}
	g.Reread = func() bool { return reloadServer(s, &given, log) }
	stop := make(chan struct{})
	defer close(stop)
	go hangups(s.reload, signals, stop) // ends with stop
	return g.Run(signals)
}

// prepare makes the models ready for all processes: a killed one cannot remove its own directory. A signal ends a
// download.
func prepare(cfg *config.Config, log *zap.Logger) (failed []error, remove func(), err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return modellist.Prepare(cfg, downloaded(ctx, false, log))
}

// newGroup is the processes of a server; socket is where it listens.
func newGroup(cfg *config.Config, socket *os.File, log *zap.Logger) *supervise.Group {
	g := &supervise.Group{Log: log}
	g.Others = []*supervise.Child{{Name: "scheduler", Args: []string{"scheduler"}, Env: childEnv(cfg, config.Scheduler), Grace: grace}}
	if hasVideo(cfg) {
		g.Optional = append(g.Optional, videoChild(cfg))
	}
	if cfg.BatchDir != "" {
		g.Optional = append(g.Optional, batchesChild(cfg))
	}
	for i := range cfg.Frontends {
		g.Frontends = append(g.Frontends, frontendChild(cfg, socket, i))
	}
	for i, device := range cfg.Devices() {
		g.Executors = append(g.Executors, executorChild(cfg, device, i))
	}
	for _, c := range slices.Concat(g.Others, g.Optional, g.Frontends, g.Executors) {
		c.Log, c.Permanent, c.Silence = log, permanent, cfg.HangTimeout
		if c.Slow == nil {
			c.Slow = slow
		}
	}
	return g
}

// frontendChild is the i-th frontend.
func frontendChild(cfg *config.Config, socket *os.File, i int) *supervise.Child {
	own := *cfg
	if own.DebugPort > 0 && i > 0 {
		own.DebugPort += debugExecutor + len(cfg.Devices()) - 1 + i // behind those of the executors
	}
	name := frontendName(i)
	return &supervise.Child{
		Name: name, Args: []string{"frontend", "--name", name}, Files: []*os.File{socket}, Grace: cfg.DrainTimeout + grace,
		Env: append(childEnv(&own, config.Frontend), listenerEnv+"="+strconv.Itoa(supervise.FileFD(0)), frontendsEnv+"="+strconv.Itoa(cfg.Frontends)),
	}
}

// executorChild is the i-th executor.
func executorChild(cfg *config.Config, device string, i int) *supervise.Child {
	own := *cfg
	own.Device = device
	if own.DebugPort > 0 {
		own.DebugPort += i
	}
	kind, _, _ := strings.Cut(device, ":")
	name := kind + "-" + strconv.Itoa(i)
	args := []string{"executor", "--name", name}
	if len(cfg.Devices()) > 1 { // their bars would be drawn over each other
		args = append(args, "--loading-lines")
	}
	return &supervise.Child{Name: "executor " + name, Args: args, Env: childEnv(&own, config.Executor), Grace: grace, Computes: true}
}

// permanent tells exit codes that a restart would only repeat: those that a process gives on purpose, never
// that of a crash. A device or memory that was there for an earlier process may come back.
func permanent(code int, first bool) bool {
	return code == cli.ExitUsage || code == cli.ExitConfig || slow(code) && code != cli.ExitLost && first
}

// slow tells exit codes of processes that miss their device or its memory.
func slow(code int) bool {
	return code == cli.ExitLost || code == cli.ExitDevice || code == cli.ExitMemory
}

// childEnv is this environment with the parameters of one role in place of all of them; those of models are in
// modellist.File, which may change. Whatever is secret goes to its role alone.
func childEnv(cfg *config.Config, role config.Role) []string {
	var env []string
	for _, pair := range os.Environ() {
		tracing := strings.HasPrefix(pair, "OTEL_") && role != config.Frontend // may hold the collector's key
		if !tracing && !strings.HasPrefix(pair, "PREFILLONLY_") && !strings.HasPrefix(pair, "NOTIFY_SOCKET=") {
			env = append(env, pair)
		}
	}
	own := *cfg
	if role != config.Scheduler {
		own.SetModels(nil)
		env = append(env, config.ConfigEnv+"="+modellist.File(cfg))
	}
	return append(env, own.Environ(role)...)
}
