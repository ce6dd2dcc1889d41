package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/roles"
	"github.com/prefillonly/prefillonly/cmd/prefillonly/settings"
	"github.com/prefillonly/prefillonly/engine/blob"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/modellist"
	"github.com/prefillonly/prefillonly/internal/supervise"
	"github.com/prefillonly/prefillonly/internal/version"
)

// newServeCommand makes `prefillonly serve`.
func newServeCommand() *cobra.Command {
	return settings.Reconfigured(&cobra.Command{
		Use:   "serve [MODEL...]",
		Short: "Serve models over HTTP, with all processes on this host",
		Long: `Serves OpenAI's API on --port. Frontend, scheduler and executor run as child processes; one that dies
is started again and its work is run again. Several models are loaded as requests need them.
SIGTERM finishes open requests first, a second one stops at once. SIGHUP reads the configuration again and
adds, removes and changes models; so does a merge of networks that are served, when it has another generation.`,
		Example: `  prefillonly serve                                      the built-in demo model on port 8000
  prefillonly serve ./Qwen2.5-0.5B --port 9000           a Hugging Face checkpoint
  prefillonly serve ./Qwen2.5-0.5B-Q4_K_M.gguf           a GGUF file
  prefillonly serve ./Qwen2.5-0.5B judge=./Qwen3-4B      two, which requests call Qwen2.5-0.5B and judge
  prefillonly serve --host 0.0.0.0 --api-key-file keys   open to other hosts, with keys
  prefillonly serve ./Llama-3.3-70B --device cuda:0,1 --tensor-parallel-size 2
                                                         one model over two GPUs
  prefillonly serve --config configs/serve.yaml          parameters from a file`,
	}, config.Serve, runServe)
}

func runServe(s settings.Settings, log *zap.Logger) error {
	// Before anything else, so that no signal is missed.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)

	cfg, given := s.Config, *s.Config
	failed, remove, err := roles.PrepareAll(cfg, log)
	if errors.Is(err, context.Canceled) {
		log.Info("ended while the models were fetched", zap.Error(err))
		return nil
	}
	if err != nil {
		return err
	}
	defer remove()
	modellist.Report(cfg, failed, log)
	if err := roles.CheckFrontend(cfg); err != nil {
		return err
	}
	roles.WarnOfFiles(cfg, log)
	if err := roles.NameGPUs(cfg, true, log); err != nil {
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
	log.Info("starting", zap.String("version", version.Release), zap.String("model", modellist.Names(cfg)),
		zap.String("device", cfg.Device), zap.String("url", "http://"+listener.Addr().String()))

	g := roles.Group(cfg, socket, log)
	g.Name = modellist.Names(cfg)
	g.Ready = func() { log.Info("ready", zap.Int("port", cfg.Port)) }
	g.Stopping = func() { // the port is the frontends' alone: closed when they close it
		listener.Close()
		socket.Close()
	}
	merged, list := &merges{}, cfg.Models
	merged.models.Store(&list)
	g.Reread = func() bool { return reloadServer(s, &given, merged, log) }
	stop := make(chan struct{})
	defer close(stop)
	go forwardHangups(s.Reload, merged, signals, stop) // ends with stop
	return g.Run(signals)
}
