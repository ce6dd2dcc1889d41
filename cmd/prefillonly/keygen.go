package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/internal/mq"
)

// newKeygenCommand makes `prefillonly keygen`.
func newKeygenCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "keygen NAME",
		Short: "Make a key pair for tcp between hosts",
		Long: `Writes NAME.key, which stays with one process (--curve-key-file), and NAME.pub, which the other side
needs (--curve-peers-file): frontends and executors the scheduler's, the scheduler all of theirs in one file.`,
		Example: "  prefillonly keygen scheduler && prefillonly keygen gpu-host && cat gpu-host.pub >> peers.pub",
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			secret, public := args[0]+".key", args[0]+".pub"
			if err := mq.NewKeys(secret, public); err != nil {
				return err
			}
			_, err := fmt.Fprintf(command.OutOrStdout(), "%s (keep it secret) and %s\n", secret, public)
			return err
		},
	}
}
