package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/mq"
	"github.com/prefillonly/prefillonly/internal/supervise"
	"github.com/prefillonly/prefillonly/internal/telemetry"
	"github.com/prefillonly/prefillonly/internal/usage"
)

// settings are the values of a command's parameters.
type settings struct {
	*config.Config
	reread func() (*config.Config, error) // reads and checks all sources anew
	reload <-chan os.Signal               // tells when that is wanted
}

// configured gives a command the parameters of roles, and calls run with their values and a logger
// that carries the command's name.
func configured(command *cobra.Command, roles config.Role, run func(cfg *config.Config, log *zap.Logger) error) *cobra.Command {
	return reconfigured(command, roles, func(s settings, log *zap.Logger) error {
		signal.Reset(syscall.SIGHUP)
		return run(s.Config, log)
	})
}

// reconfigured is configured for a command that applies a configuration that has changed.
func reconfigured(command *cobra.Command, roles config.Role, run func(s settings, log *zap.Logger) error) *cobra.Command {
	config.Flags(command.Flags(), roles)
	usage.AddHelp(command, roles)
	usage.AddCompletion(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		reload := reloads() // before anything is read
		cfg, err := loadConfig(command, args)
		if err != nil {
			return cli.ConfigError(err)
		}
		log, err := telemetry.NewLogger(cfg.LogLevel, cfg.LogFormat, command.Name())
		if err != nil {
			return cli.Exit(cli.ExitConfig, err)
		}
		defer func() { _ = log.Sync() }()
		for _, w := range cfg.Warnings {
			log.Warn(w)
		}
		reread := func() (*config.Config, error) {
			next, err := loadConfig(command, args)
			if err != nil {
				return nil, err
			}
			return &next.Config, nil
		}
		return run(settings{&cfg.Config, reread, reload}, log)
	}
	return command
}

// reloads tells of SIGHUP, unless the process was started to ignore it (nohup).
func reloads() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(c, syscall.SIGHUP)
	}
	return c
}

// loadConfig reads and checks a command's parameters.
func loadConfig(command *cobra.Command, args []string) (*config.Loaded, error) {
	file, err := command.Flags().GetString("config")
	if err != nil {
		return nil, err
	}
	if file == "" {
		file = os.Getenv(config.ConfigEnv)
	}
	cfg, err := config.Load(file, os.Environ(), command.Flags())
	if err != nil {
		return nil, err
	}
	cfg.Arguments(args)
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return cfg, nil
}

// heartbeat is how often a frontend or executor says that it is alive.
const heartbeat = time.Second

// sayAlive tells the supervisor that this process's work goes on.
func sayAlive() { supervise.Say(supervise.Alive) }

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

// defaultName is a process's name to the scheduler when it runs alone: one of each role on a host.
func defaultName(role string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unnamed"
	}
	return role + "-" + host
}

// mqOptions says how this process, which is of a role, joins the others.
func mqOptions(cfg *config.Config, role wire.Role, log *zap.Logger) (mq.Options, error) {
	o := mq.Options{Unauthenticated: cfg.UnauthenticatedTCP, Release: version, OnError: func(peer string, err error) {
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

// dial connects a frontend or executor to the scheduler.
func dial(cfg *config.Config, role wire.Role, log *zap.Logger) (*mq.Peer, error) {
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
