package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/engine/device"
	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/modellist"
	"github.com/prefillonly/prefillonly/internal/mq"
	"github.com/prefillonly/prefillonly/internal/supervise"
)

// exitCodes says what they mean to users.
var exitCodes = []cli.ExitCode{
	{Code: 0, Means: "ended as asked, everything answered"},
	{Code: cli.ExitUsage, Means: "the command line: an unknown command or flag, too few or too many arguments"},
	{Code: cli.ExitConfig, Means: "a parameter's value, wherever it came from, a file it names, the model, or a scheduler of another release"},
	{Code: cli.ExitDevice, Means: "no usable device"},
	{Code: cli.ExitMemory, Means: "the model does not fit into memory"},
	{Code: cli.ExitLost, Means: "a device failed; another process may find it well"},
	{Code: cli.ExitFailure, Means: "everything else; another start may succeed"},
}

// deviceExits are the exit codes of what keeps a device from being opened.
var deviceExits = map[device.Cause]int{
	device.Configuration: cli.ExitConfig,
	device.Model:         cli.ExitConfig,
	device.Device:        cli.ExitDevice,
	device.Memory:        cli.ExitMemory,
	device.Lost:          cli.ExitLost,
}

func exitCode(err error) int {
	var exit *cli.Error
	var child *supervise.ExitError
	var refused *mq.RefusedError
	var models *modellist.Error
	code, opening := deviceExits[device.CauseOf(err)]
	switch {
	case errors.As(err, &exit):
		return exit.Code
	case opening:
		return code
	case errors.As(err, &refused), errors.As(err, &models):
		return cli.ExitConfig
	case errors.As(err, &child):
		return child.Code
	}
	return cli.ExitFailure
}

// executeCommand runs the command that the arguments name. What fails before it starts is an error of usage.
func executeCommand(root *cobra.Command) error {
	started := false
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	command, err := root.ExecuteC()
	if err != nil && !started {
		return cli.UsageError("%w\n`%s --help` tells how it is used", config.UnknownFlag(err, command.Flags()), command.CommandPath())
	}
	return err
}
