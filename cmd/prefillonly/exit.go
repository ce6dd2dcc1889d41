package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/engine/device"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/modellist"
	"github.com/prefillonly/prefillonly/internal/mq"
	"github.com/prefillonly/prefillonly/internal/supervise"
	"github.com/prefillonly/prefillonly/internal/usage"
)

// The exit codes are those of sysexits.h. None of them is a code that Go's runtime gives (2), so that only a
// process that meant it ends with one.
const (
	exitFailure = 1
	exitUsage   = 64
	exitDevice  = 69
	exitMemory  = 71
	exitLost    = 75
	exitConfig  = 78
)

// exitCodes says what they mean to users.
var exitCodes = []usage.ExitCode{
	{Code: 0, Means: "ended as asked, everything answered"},
	{Code: exitUsage, Means: "the command line: an unknown command or flag, too few or too many arguments"},
	{Code: exitConfig, Means: "a parameter's value, wherever it came from, a file it names, the model, or a scheduler of another release"},
	{Code: exitDevice, Means: "no usable device"},
	{Code: exitMemory, Means: "the model does not fit into memory"},
	{Code: exitLost, Means: "a device failed; another process may find it well"},
	{Code: exitFailure, Means: "everything else; another start may succeed"},
}

// exitError is an error with the exit code it means.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// deviceExits are the exit codes of what keeps a device from being opened.
var deviceExits = map[device.Cause]int{
	device.Configuration: exitConfig,
	device.Model:         exitConfig,
	device.Device:        exitDevice,
	device.Memory:        exitMemory,
	device.Lost:          exitLost,
}

func exitCode(err error) int {
	var exit *exitError
	var child *supervise.ExitError
	var refused *mq.RefusedError
	var models *modellist.Error
	code, opening := deviceExits[device.CauseOf(err)]
	switch {
	case errors.As(err, &exit):
		return exit.code
	case opening:
		return code
	case errors.As(err, &refused), errors.As(err, &models):
		return exitConfig
	case errors.As(err, &child):
		return child.Code
	}
	return exitFailure
}

// usageError is about the command line.
func usageError(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// configError is about parameters: of the command line where a flag is none, else of the configuration.
func configError(err error) error {
	var flag *config.FlagError
	if errors.As(err, &flag) {
		return &exitError{exitUsage, err}
	}
	return &exitError{exitConfig, err}
}

// execute runs the command that the arguments name. What fails before it starts is an error of usage.
func execute(root *cobra.Command) error {
	started := false
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	command, err := root.ExecuteC()
	if err != nil && !started {
		return usageError("%w\n`%s --help` tells how it is used", config.UnknownFlag(err, command.Flags()), command.CommandPath())
	}
	return err
}

// commandGroup makes command one that only holds others: alone it helps, and a word that names none of
// them is an error.
func commandGroup(command *cobra.Command, members ...*cobra.Command) *cobra.Command {
	command.Args = cobra.NoArgs
	command.RunE = func(command *cobra.Command, _ []string) error { return command.Help() }
	command.AddCommand(members...)
	return command
}
