package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/settings"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
)

// newConfigCommand makes `prefillonly config`.
func newConfigCommand() *cobra.Command {
	check := &cobra.Command{
		Use:     "check",
		Short:   "Check file, environment and flags as serve would read them",
		Example: "  prefillonly config check --config /etc/prefillonly/prefillonly.yaml",
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := checkedConfig(command)
			return err
		},
	}
	show := &cobra.Command{
		Use:     "show",
		Short:   "Print every parameter as YAML, and where its value came from",
		Example: "  prefillonly config show --config configs/serve.yaml",
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			cfg, err := checkedConfig(command)
			if err == nil {
				_, err = fmt.Fprint(command.OutOrStdout(), cfg.YAML())
			}
			return err
		},
	}
	for _, c := range []*cobra.Command{check, show} {
		settings.AddTo(c, config.Serve)
	}
	return cli.Group(&cobra.Command{Use: "config", Short: "Check or show a configuration"}, check, show)
}

func checkedConfig(command *cobra.Command) (*config.Loaded, error) {
	cfg, err := settings.Load(command, nil)
	if err != nil {
		return nil, cli.ConfigError(err)
	}
	return cfg, nil
}
