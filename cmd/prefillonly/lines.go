package main

import (
	"context"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/engine/batch"
	"github.com/prefillonly/prefillonly/engine/batch/runner"
	"github.com/prefillonly/prefillonly/engine/client"
	"github.com/prefillonly/prefillonly/engine/frontend"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/modellist"
)

// linesUnderWay is how many short lines of batch files are in the pool at a time: enough for several devices, and few
// beside what live requests may be.
const linesUnderWay = 256

// lineOverhead is what a line may have beyond its body, in bytes.
const lineOverhead = 16 << 10

// lines answers lines of batch files: a frontend without a port, whose jobs are of the lowest urgency.
type lines struct {
	frontend *frontend.Frontend
	rules    batch.Rules
}

// serveLines joins the pool for as long as work runs.
func serveLines(ctx context.Context, cfg *config.Config, name string, log *zap.Logger, work func(context.Context, *lines) error) error {
	_, remove, err := modellist.Prepare(cfg, downloaded(ctx, true, log))
	if err != nil {
		return err
	}
	defer remove()
	models := served(cfg)
	if err := openOnly(models); err != nil {
		return cli.Exit(cli.ExitConfig, err)
	}
	peer, err := dial(cfg, wire.RoleFrontend, log)
	if err != nil {
		return err
	}
	defer peer.Close()
	tensors := newBlobs(cfg, 0)
	defer tensors.Close()
	pool := client.New(client.Config{
		Name: name, MaxJobs: cfg.MaxOpenJobs, Heartbeat: heartbeat, Pulse: sayAlive, Lowest: true, Inputs: tensors, Outputs: tensors,
	}, peer, log)
	f, err := frontend.New(frontend.Config{
		Name: name, Version: version, MaxBody: int64(cfg.MaxBody), MaxLogprobs: cfg.MaxLogprobs, DefaultMaxTokens: cfg.DefaultMaxTokens, ToolParser: toolParser(cfg),
	}, models, pool, log)
	if err != nil {
		return cli.Exit(cli.ExitConfig, err)
	}
	l := &lines{f, batch.Rules{MaxLine: int(cfg.MaxBody) + lineOverhead, Serves: frontend.Askable}}
	return pool.Serve(ctx, func(ctx context.Context) error { return work(ctx, l) })
}

// ask sends lines on an owner's behalf.
func (l *lines) ask(owner apikey.Owner) runner.Ask {
	return func(ctx context.Context, line *batch.Line) (*batch.Reply, error) {
		a, err := l.frontend.Ask(ctx, owner, line.URL, line.Body)
		if err != nil {
			return nil, err
		}
		return &batch.Reply{Status: a.Status, RequestID: a.RequestID, Body: a.Body, RetryAfter: a.RetryAfter, NoRetry: a.NoRetry}, nil
	}
}
