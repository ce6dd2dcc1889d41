// Command prefillonly serves models for work that is one forward pass: scoring, choosing, ranking,
// classifying. Each role of a server is in a file of its name, the other subcommands in packages beside.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/bench"
	"github.com/prefillonly/prefillonly/cmd/prefillonly/collectenv"
	"github.com/prefillonly/prefillonly/cmd/prefillonly/model"
	"github.com/prefillonly/prefillonly/cmd/prefillonly/top"
	"github.com/prefillonly/prefillonly/cmd/prefillonly/video"
	"github.com/prefillonly/prefillonly/internal/supervise"
)

// version is set by the linker.
var version = "unknown"

func main() {
	supervise.Watch()
	if err := execute(newRootCommand()); err != nil {
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
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		newServeCommand(),
		newFrontendCommand(),
		newSchedulerCommand(),
		newExecutorCommand(),
		newRunBatchCommand(),
		newBatchesCommand(),
		newProfileCommand(),
		bench.New(),
		newSimulateCommand(),
		model.New(),
		video.New(newVideoServeCommand()),
		newConfigCommand(),
		newKeygenCommand(),
		newHealthcheckCommand(),
		top.New(),
		collectenv.New(version, loadConfig),
		newVersionCommand(),
		newManCommand(),
	)
	root.SetVersionTemplate(versionLine() + "\n")
	return root
}
