// Package roles holds the processes of a server, each of them a subcommand, in a file of its name: how they join each
// other, what each runs, and how they are started together.
package roles

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/mq"
	"github.com/prefillonly/prefillonly/internal/supervise"
	"github.com/prefillonly/prefillonly/internal/version"
)

// heartbeat is how often a frontend or executor says that it is alive.
const heartbeat = time.Second

// sayAlive tells the supervisor that this process's work goes on.
func sayAlive() { supervise.SendSign(supervise.Alive) }

// The processes' debug servers are on ports from --debug-port on, in this order.
const (
	debugFrontend = iota
	debugScheduler
	debugExecutor
)

// stopSignal is done after SIGTERM or SIGINT, or with ctx.
func stopSignal(ctx context.Context) context.Context {
	ctx, _ = signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT) // released when the process ends
	return ctx
}

// DefaultName is a process's name to the scheduler when it runs alone: one of each role on a host.
func DefaultName(role string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unnamed"
	}
	return role + "-" + host
}

// mqOptions says how this process, which is of a role, joins the others.
func mqOptions(cfg *config.Config, role wire.Role, log *zap.Logger) (mq.Options, error) {
	o := mq.Options{Unauthenticated: cfg.UnauthenticatedTCP, Release: version.Release, OnError: func(peer string, err error) {
		log.Error("message refused", zap.String("peer", peer), zap.Error(err))
	}}
	if cfg.CurveKeyFile == "" {
		return o, nil
	}
	var err error
	if o.Curve, err = mq.LoadCurve(role, cfg.CurveKeyFile, cfg.CurvePeersFile); err != nil {
		return o, cli.Exit(cli.ExitConfig, err)
	}
	return o, nil
}

// dialScheduler connects a frontend or executor to the scheduler.
func dialScheduler(cfg *config.Config, role wire.Role, log *zap.Logger) (*mq.Peer, error) {
	if cfg.Endpoint == "" {
		return nil, cli.Exit(cli.ExitConfig, fmt.Errorf("no --scheduler-endpoint is given; `prefillonly serve` starts all processes and needs none"))
	}
	options, err := mqOptions(cfg, role, log)
	if err != nil {
		return nil, err
	}
	peer, err := mq.Dial(cfg.Endpoint, options)
	if err != nil {
		return nil, cli.Exit(cli.ExitConfig, err)
	}
	return peer, nil
}
