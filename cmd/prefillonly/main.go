// Command prefillonly serves models for work that is one forward pass: scoring, choosing, ranking,
// classifying. What serve starts is in the package roles, larger subcommands are in packages of their names.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/bench"
	"github.com/prefillonly/prefillonly/cmd/prefillonly/collectenv"
	"github.com/prefillonly/prefillonly/cmd/prefillonly/merge"
	"github.com/prefillonly/prefillonly/cmd/prefillonly/model"
	"github.com/prefillonly/prefillonly/cmd/prefillonly/roles"
	"github.com/prefillonly/prefillonly/cmd/prefillonly/video"
	"github.com/prefillonly/prefillonly/internal/supervise"
	"github.com/prefillonly/prefillonly/internal/version"
)

// openRunner opens the devices of executors.
var openRunner = roles.OpenRunner

func main() {
	supervise.Watch()
	if err := executeCommand(newRootCommand()); err != nil {
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
		Version:       version.Release,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		newServeCommand(),
		roles.NewFrontend(),
		roles.NewScheduler(),
		roles.NewExecutor(openRunner),
		newRunBatchCommand(),
		newTranscribeCommand(),
		roles.NewBatches(),
		newProfileCommand(openRunner),
		bench.New(),
		bench.NewSimulate(),
		model.New(),
		merge.New(openStreams),
		video.New(roles.NewVideo()),
		newConfigCommand(),
		newKeygenCommand(),
		newHealthcheckCommand(),
		newOCRCommand(),
		newTopCommand(),
		collectenv.New(),
		newVersionCommand(),
		newManCommand(),
	)
	root.SetVersionTemplate(version.Line("prefillonly") + "\n")
	return root
}
