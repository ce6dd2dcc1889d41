package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/batch/runner"
	"github.com/prefillonly/prefillonly/engine/batch/service"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/supervise"
)

// maxBatchLines bounds the lines of a batch, of each of which a digest is in memory.
const maxBatchLines = 1_000_000

// newBatchesCommand makes `prefillonly batches`.
func newBatchesCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "batches [MODEL...]",
		Short: "Keep files and batches, for a frontend",
		Long: `Keeps the files and batches of /v1/files and /v1/batches in --batch-dir, and answers the lines of batches. ` + "`prefillonly serve`" + ` starts
it when --batch-dir is given. It listens on a socket in --runtime-dir, which frontends with the same directory hand requests to.`,
	}
	name := command.Flags().String("name", defaultName("batches"), "name among the peers of one scheduler, stable over restarts")
	return reconfigured(command, config.Lines|config.Batches, func(s settings, log *zap.Logger) error { return runBatches(s, *name, log) })
}

// batchSocket is where the process that keeps files and batches listens; empty without one.
func batchSocket(cfg *config.Config) string {
	if cfg.BatchDir == "" {
		return ""
	}
	return filepath.Join(cfg.RuntimeDir, "batches.sock")
}

// batchesChild is that process. However often it crashes, it does not end the server.
func batchesChild(cfg *config.Config) *supervise.Child {
	return &supervise.Child{
		Name: "batches", Args: []string{"batches", "--name", "batches"}, Env: childEnv(cfg, config.Lines|config.Batches), Grace: grace,
	}
}

func runBatches(s settings, name string, log *zap.Logger) error {
	cfg := s.Config
	if cfg.BatchDir == "" {
		return cli.UsageError("give --batch-dir DIR, where files and batches are kept")
	}
	keys, err := apiKeys(cfg)
	if err != nil {
		return cli.Exit(cli.ExitConfig, err)
	}
	ctx := stopSignal(context.Background())
	return serveLines(ctx, cfg, name, log, func(ctx context.Context, l *lines) error {
		kept, err := service.Open(service.Config{
			Dir: cfg.BatchDir, Space: int64(cfg.BatchSpace), SpaceEach: int64(cfg.BatchSpaceEach), MaxLines: maxBatchLines,
			Rules: l.rules, Room: runner.NewRoom(linesUnderWay),
			Ask: func(id string) (runner.Ask, bool) {
				owner, ok := keys.Of(id)
				return l.ask(owner), ok
			},
		}, log)
		if err != nil {
			return fmt.Errorf("--batch-dir: %w", err)
		}
		var group sync.WaitGroup
		defer group.Wait()
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		group.Go(func() { // ends with ctx
			for {
				select {
				case <-s.reload:
					resetModels(s, l.frontend, log)
				case <-ctx.Done():
					return
				}
			}
		})
		return errors.Join(serveSocket(ctx, kept.Handler(), batchSocket(cfg), func() {}), kept.Close())
	})
}
