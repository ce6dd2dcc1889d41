package roles

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/modellist"
	"github.com/prefillonly/prefillonly/internal/supervise"
)

// downloadingEvery is how often a download is told of without a terminal, and to systemd.
const downloadingEvery = 5 * time.Second

// Prepare makes the models ready for this process, as modellist.Prepare does, and downloads those of the hub that are not
// here, without their weights if the process only reads and writes texts.
func Prepare(ctx context.Context, cfg *config.Config, texts bool, log *zap.Logger) (failed []error, remove func(), err error) {
	return modellist.Prepare(cfg, newHubFetch(ctx, texts, log))
}

// PrepareAll makes the models ready for all processes of a server: a killed one cannot remove its own directory. It refuses directories
// that another server has. A signal ends a download.
func PrepareAll(cfg *config.Config, log *zap.Logger) (failed []error, remove func(), err error) {
	claimed, err := claimPlaces(placesOfServer(cfg))
	if err != nil {
		return nil, nil, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	failed, removeOwn, err := Prepare(ctx, cfg, false, log)
	if err != nil {
		claimed.Close()
		return nil, nil, err
	}
	return failed, func() {
		removeOwn()
		claimed.Close()
	}, nil
}

// newHubFetch fetches models of the Hugging Face hub until ctx ends, without weights for processes that only read and write
// text. People see it by a bar on a terminal, or by lines of the log.
func newHubFetch(ctx context.Context, texts bool, log *zap.Logger) modellist.Fetch {
	return modellist.Downloaded(ctx, texts, func(model string) func(done, total int64) {
		bar, told := cli.ProgressBar("downloading "+model), time.Time{}
		return func(done, total int64) {
			if bar != nil {
				bar(done, total)
			}
			if now := time.Now(); now.Sub(told) >= downloadingEvery || done == total {
				told = now
				supervise.MoreTime(10 * downloadingEvery)
				if bar == nil {
					log.Info("downloading", zap.String("model", model), zap.String("here", gigabytes(done)), zap.String("of", gigabytes(total)))
				}
			}
		}
	})
}

// gigabytes is an amount as disks count it.
func gigabytes(n int64) string { return fmt.Sprintf("%.3f GB", float64(n)/1e9) }
