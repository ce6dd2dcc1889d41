package roles

import (
	"context"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/processors"
)

// processorsSocket is where the order of CPU stages of the scheduler's host is served, beside its own socket; none for a
// scheduler that others reach over the network, as their processors are not its host's.
func processorsSocket(cfg *config.Config) (path string, ok bool) {
	path, ok = strings.CutPrefix(cfg.Endpoint, "ipc://")
	return path + ".cpu", ok && !strings.HasPrefix(path, "@")
}

// serveProcessors serves that order until stop is called. A server works without, each process by its own order.
func serveProcessors(cfg *config.Config, log *zap.Logger) (stop func()) {
	path, ok := processorsSocket(cfg)
	if !ok {
		return func() {}
	}
	return runBeside(func(ctx context.Context) {
		if err := processors.Serve(ctx, path, processors.WithDefaults(cfg.CPU)); err != nil {
			log.Warn("every process orders its own work on processors", zap.Error(err))
		}
	})
}

// followProcessors has the CPU stages of this process keep to that order until stop is called.
func followProcessors(cfg *config.Config) (stop func()) {
	path, ok := processorsSocket(cfg)
	if !ok {
		return func() {}
	}
	return runBeside(func(ctx context.Context) { processors.Shared().Follow(ctx, path) })
}

// runBeside runs f until stop is called, which waits for its end.
func runBeside(f func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { f(ctx) }) // ends with ctx
	return func() {
		cancel()
		group.Wait()
	}
}
