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
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/mq"
	"github.com/prefillonly/prefillonly/internal/supervise"
	"github.com/prefillonly/prefillonly/internal/telemetry"
)

// configured gives a command the parameters of roles, and calls run with their values and a logger
// that carries the command's name.
func configured(command *cobra.Command, roles config.Role, run func(cfg *config.Config, log *zap.Logger) error) *cobra.Command {
	config.Flags(command.Flags(), roles)
	addGroupedHelp(command, roles)
	completeParameters(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		cfg, err := loadConfig(command)
		if err == nil && len(args) == 1 {
			cfg.Model, cfg.Origin["model"] = args[0], "the argument"
		}
		if err == nil {
			err = cfg.Validate()
		}
		if err != nil {
			return configError(err)
		}
		log, err := telemetry.NewLogger(cfg.LogLevel, cfg.LogFormat, command.Name())
		if err != nil {
			return &exitError{exitConfig, err}
		}
		defer func() { _ = log.Sync() }()
		for _, w := range cfg.Warnings {
			log.Warn(w)
		}
		return run(&cfg.Config, log)
	}
	return command
}

func loadConfig(command *cobra.Command) (*config.Loaded, error) {
	file, err := command.Flags().GetString("config")
	if err != nil {
		return nil, err
	}
	if file == "" {
		file = os.Getenv(config.ConfigEnv)
	}
	return config.Load(file, os.Environ(), command.Flags())
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
	o := mq.Options{Unauthenticated: cfg.UnauthenticatedTCP, OnError: func(peer string, err error) {
		log.Error("message refused", zap.String("peer", peer), zap.Error(err))
	}}
	if cfg.CurveKeyFile == "" {
		return o, nil
	}
	var err error
	if o.Curve, err = mq.LoadCurve(role, cfg.CurveKeyFile, cfg.CurvePeersFile); err != nil {
		return o, &exitError{exitConfig, err}
	}
	return o, nil
}

// dial connects a frontend or executor to the scheduler.
func dial(cfg *config.Config, role wire.Role, log *zap.Logger) (*mq.Peer, error) {
	if cfg.Endpoint == "" {
		return nil, &exitError{exitConfig, fmt.Errorf("no --scheduler-endpoint is given; `prefillonly serve` starts all processes and needs none")}
	}
	options, err := mqOptions(cfg, role, log)
	if err != nil {
		return nil, err
	}
	peer, err := mq.Dial(cfg.Endpoint, options)
	if err != nil {
		return nil, &exitError{exitConfig, err}
	}
	return peer, nil
}
