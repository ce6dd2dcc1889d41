// Command prefillonly serves models for work that is one forward pass: scoring, choosing, ranking,
// classifying. Each subcommand is in a file of its name.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/supervise"
)

// version is set by the linker.
var version = "unknown"

func main() {
	supervise.Watch()
	command := newRootCommand()
	if err := command.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "prefillonly:", err)
		os.Exit(exitCode(err))
	}
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "prefillonly",
		Short: "OpenAI-compatible serving for work that is one forward pass",
		Long: `prefillonly serves scoring, choosing, ranking and classifying with an LLM: work whose answer is one
token or a few probabilities, so that one forward pass over the prompt is all there is to do.`,
		Example: `  prefillonly serve                          the built-in demo model on port 8000
  prefillonly serve --model ./Qwen2.5-0.5B   a Hugging Face checkpoint
  prefillonly serve --help=all               every parameter`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		newServeCommand(),
		newFrontendCommand(),
		newSchedulerCommand(),
		newExecutorCommand(),
		newProfileCommand(),
		newBenchCommand(),
		newSimulateCommand(),
		newConfigCommand(),
		newKeygenCommand(),
		newHealthcheckCommand(),
		newVersionCommand(),
	)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return &exitError{exitUsage, fmt.Errorf("%w\n%s --help explains the flags", config.UnknownFlag(err, c.Flags()), c.CommandPath())}
	})
	return root
}

// The exit codes, as far as sysexits.h has them; a systemd unit does not restart after 78.
const (
	exitFailure = 1
	exitUsage   = 2
	exitDevice  = 69 // no usable device
	exitMemory  = 71 // the model does not fit
	exitLost    = 75 // the device failed; another process may find it well
	exitConfig  = 78 // bad configuration or model
)

// exitError is an error with the exit code it means.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func exitCode(err error) int {
	var exit *exitError
	var child *supervise.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &child):
		return child.Code
	}
	return exitFailure
}
