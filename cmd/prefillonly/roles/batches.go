package roles

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/settings"
	"github.com/prefillonly/prefillonly/engine/batch/runner"
	"github.com/prefillonly/prefillonly/engine/batch/service"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
)

// maxBatchLines bounds the lines of a batch, of each of which a digest is in memory.
const maxBatchLines = 1_000_000

// NewBatches makes `prefillonly batches`.
func NewBatches() *cobra.Command {
	command := &cobra.Command{
		Use:   "batches [MODEL...]",
		Short: "Keep files and batches, for a frontend",
		Long: `Keeps the files and batches of /v1/files and /v1/batches in --batch-dir, and answers the lines of batches. ` + "`prefillonly serve`" + ` starts
it when --batch-dir is given. It listens on a socket in --runtime-dir, which frontends with the same directory hand requests to.`,
	}
	name := command.Flags().String("name", DefaultName("batches"), "name among the peers of one scheduler, stable over restarts")
	return settings.Reconfigured(command, config.Lines|config.Batches, func(s settings.Settings, log *zap.Logger) error { return runBatches(s, *name, log) })
}

// batchSocket is where the process that keeps files and batches listens; empty without one.
func batchSocket(cfg *config.Config) string {
	if cfg.BatchDir == "" {
		return ""
	}
	return filepath.Join(cfg.RuntimeDir, "batches.sock")
}

func runBatches(s settings.Settings, name string, log *zap.Logger) error {
	cfg := s.Config
	if cfg.BatchDir == "" {
		return cli.UsageError("give --batch-dir DIR, where files and batches are kept")
	}
	claimed, err := claimPlaces(placesOfBatches(cfg))
	if err != nil {
		return err
	}
	defer claimed.Close()
	keys, err := apiKeys(cfg)
	if err != nil {
		return cli.Exit(cli.ExitConfig, err)
	}
	return ServeLines(cfg, name, log, func(ctx context.Context, l *Lines) error {
		kept, err := service.Open(service.Config{
			Dir: cfg.BatchDir, Space: int64(cfg.BatchSpace), SpaceEach: int64(cfg.BatchSpaceEach), MaxLines: maxBatchLines,
			Rules: l.Rules, Room: l.Room,
			Ask: func(id string) (runner.Ask, bool) {
				owner, ok := keys.OwnerOf(id)
				return l.Ask(owner), ok
			},
		}, log)
		if err != nil {
			return fmt.Errorf("--batch-dir: %w", err)
		}
		var group sync.WaitGroup
		defer group.Wait()
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		group.Go(func() { s.OnReload(ctx, func() { resetModels(s, l.frontend, log) }) }) // ends with ctx
		return errors.Join(serveSocket(ctx, kept.Handler(), batchSocket(cfg), func() {}), kept.Close())
	})
}
