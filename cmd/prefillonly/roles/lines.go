package roles

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
	"github.com/prefillonly/prefillonly/internal/version"
)

// linesUnderWay is how many short lines of batch files are in the pool at a time: enough for several devices, and few
// beside what live requests may be.
const linesUnderWay = 256

// lineOverhead is what a line may have beyond its body, in bytes.
const lineOverhead = 16 << 10

// Lines answers lines of batch files: a frontend without a port, whose jobs are of the lowest urgency.
type Lines struct {
	Rules    batch.Rules
	Room     *runner.Room // of the lines that are under way
	frontend *frontend.Frontend
}

// ServeLines joins the pool for as long as work runs, which SIGTERM and SIGINT end.
func ServeLines(cfg *config.Config, name string, log *zap.Logger, work func(context.Context, *Lines) error) error {
	ctx := stopSignal(context.Background())
	_, remove, err := Prepare(ctx, cfg, true, log)
	if err != nil {
		return err
	}
	defer remove()
	models := servedModels(cfg)
	if err := openOnly(models); err != nil {
		return cli.Exit(cli.ExitConfig, err)
	}
	peer, err := dialScheduler(cfg, wire.RoleFrontend, log)
	if err != nil {
		return err
	}
	defer peer.Close()
	defer followProcessors(cfg)()
	tensors := NewBlobs(cfg, 0)
	defer tensors.Close()
	pool := client.New(client.Config{
		Name: name, MaxJobs: cfg.MaxOpenJobs, Heartbeat: heartbeat, Pulse: sayAlive, Lowest: true, Inputs: tensors, Outputs: tensors,
	}, peer, log)
	f, err := frontend.New(frontend.Config{
		Name: name, Version: version.Release, MaxBody: int64(cfg.MaxBody), MaxLogprobs: cfg.MaxLogprobs, DefaultMaxTokens: cfg.DefaultMaxTokens, ToolParser: toolParser(cfg), OpenSound: OpenSound,
	}, models, pool, log)
	if err != nil {
		return cli.Exit(cli.ExitConfig, err)
	}
	l := &Lines{batch.Rules{MaxLine: int(cfg.MaxBody) + lineOverhead, Serves: frontend.Askable}, runner.NewRoom(linesUnderWay), f}
	return pool.Serve(ctx, func(ctx context.Context) error { return work(ctx, l) })
}

// Ask sends lines on an owner's behalf.
func (l *Lines) Ask(owner apikey.Owner) runner.Ask {
	return func(ctx context.Context, line *batch.Line) (*batch.Reply, error) {
		a, err := l.frontend.Ask(ctx, owner, line.URL, line.Body)
		if err != nil {
			return nil, err
		}
		return &batch.Reply{Status: a.Status, RequestID: a.RequestID, Body: a.Body, RetryAfter: a.RetryAfter, NoRetry: a.NoRetry}, nil
	}
}
