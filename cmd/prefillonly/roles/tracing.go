package roles

import (
	"context"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/tracing"
	"github.com/prefillonly/prefillonly/internal/version"
)

// flushTimeout bounds how long a frontend that has drained still sends spans.
const flushTimeout = 2 * time.Second

// traceSettings say how a frontend of this name traces requests; nil if it does not.
func traceSettings(cfg *config.Config, name string) (*tracing.Settings, error) {
	s, err := tracing.Read(cfg.OTLPTraces, os.Getenv, tracing.Process{Service: "prefillonly", Version: version.Release, Instance: name})
	if err != nil {
		return nil, cli.Exit(cli.ExitConfig, err)
	}
	return s, nil
}

// startTracing makes the tracer of a frontend, which end ends; nil if it has none.
func startTracing(cfg *config.Config, name string, log *zap.Logger) (t *tracing.Tracer, end func(), err error) {
	s, err := traceSettings(cfg, name)
	if err != nil {
		return nil, nil, err
	}
	if t, err = tracing.New(s, log); err != nil {
		return nil, nil, cli.Exit(cli.ExitConfig, err)
	}
	return t, func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
		defer cancel()
		t.Close(ctx)
	}, nil
}
