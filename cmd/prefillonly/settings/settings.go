// Package settings gives commands their parameters: it reads them from file, variables and flags, and anew when a
// process is to go on with other models.
package settings

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/modellist"
	"github.com/prefillonly/prefillonly/internal/telemetry"
)

// Settings are the values of a command's parameters.
type Settings struct {
	*config.Config
	Reload <-chan os.Signal               // tells when they are to be read anew
	reread func() (*config.Config, error) // reads and checks all sources anew
}

// OnReload calls reload each time that the settings are to be read anew, until ctx ends.
func (s Settings) OnReload(ctx context.Context, reload func()) {
	for {
		select {
		case <-s.Reload:
			reload()
		case <-ctx.Done():
			return
		}
	}
}

// AddTo gives a command the flags, the help and the completion of the parameters of roles.
func AddTo(command *cobra.Command, roles config.Role) {
	config.Flags(command.Flags(), roles)
	cli.AddHelp(command, roles)
	cli.AddCompletion(command)
}

// Configured gives a command the parameters of roles, and calls run with their values and a logger
// that carries the command's name.
func Configured(command *cobra.Command, roles config.Role, run func(cfg *config.Config, log *zap.Logger) error) *cobra.Command {
	return Reconfigured(command, roles, func(s Settings, log *zap.Logger) error {
		signal.Reset(syscall.SIGHUP)
		return run(s.Config, log)
	})
}

// Reconfigured is Configured for a command that applies a configuration that has changed.
func Reconfigured(command *cobra.Command, roles config.Role, run func(s Settings, log *zap.Logger) error) *cobra.Command {
	AddTo(command, roles)
	command.RunE = func(command *cobra.Command, args []string) error {
		reload := reloadSignals() // before anything is read
		cfg, err := Load(command, args)
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
			next, err := Load(command, args)
			if err != nil {
				return nil, err
			}
			return &next.Config, nil
		}
		return run(Settings{&cfg.Config, reload, reread}, log)
	}
	return command
}

// reloadSignals tells of SIGHUP, unless the process was started to ignore it (nohup).
func reloadSignals() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(c, syscall.SIGHUP)
	}
	return c
}

// Load reads and checks a command's parameters.
func Load(command *cobra.Command, args []string) (*config.Loaded, error) {
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

// Reread reads the configuration anew, and resolves the models for a process that goes on where it is. Changed
// are the other parameters that are not what they were in before.
func (s Settings) Reread(before *config.Config) (next *config.Config, failed []error, changed []string, err error) {
	if next, err = s.reread(); err != nil {
		return nil, nil, nil, err
	}
	changed = config.Changed(before, next)
	next.RuntimeDir, next.Device = s.RuntimeDir, s.Device
	failed, err = modellist.Resolve(next, modellist.Cached)
	return next, failed, changed, err
}
