package model

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/hub"
)

// newDownload makes `prefillonly model download`.
func newDownload() *cobra.Command {
	command := &cobra.Command{
		Use:   "download NAME",
		Short: "Download a model from the Hugging Face hub into the local cache",
		Long: `Brings the files that a model needs (configuration, tokenizer, chat template, safetensors, modules of
sentence-transformers) into the cache that Hugging Face's own programs share, and prints their directory.
What is there is not fetched again, and a download that was cut off goes on where it was. Unlike serve it asks
whether the hub has a newer revision.

HF_ENDPOINT, HF_TOKEN (or the token of "hf auth login"), HF_HOME, HF_HUB_CACHE, HF_HUB_DOWNLOAD_TIMEOUT and HTTPS_PROXY are
what they are to these programs.`,
		Example: "  prefillonly model download Qwen/Qwen2.5-0.5B\n  prefillonly model download Qwen/Qwen2.5-0.5B@refs/pr/1",
		Args:    cobra.ExactArgs(1),
	}
	revision := command.Flags().String("revision", "", "branch, tag or commit; default: main")
	command.RunE = func(command *cobra.Command, args []string) error {
		m, err := hub.Parse(args[0], *revision)
		if err != nil {
			return cli.UsageError("%w", err)
		}
		o := hub.Options{Progress: cli.ProgressBar("downloading " + m.String())}
		if o.Settings, err = hub.FromEnvironment(os.Getenv); err != nil {
			return modelError(err)
		}
		ctx, stop := signal.NotifyContext(command.Context(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		dir, err := hub.Download(ctx, m, o)
		if err != nil && hub.IsPassing(err) {
			return cli.Exit(cli.ExitFailure, err)
		}
		if err == nil {
			_, err = fmt.Fprintln(command.OutOrStdout(), dir)
		}
		return modelError(err)
	}
	return command
}
