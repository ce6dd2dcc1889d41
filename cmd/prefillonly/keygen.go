package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/mq"
)

// newKeygenCommand makes `prefillonly keygen`.
func newKeygenCommand() *cobra.Command {
	var roles []string
	for _, r := range mq.KeyRoles {
		roles = append(roles, string(r))
	}
	return &cobra.Command{
		Use:   "keygen scheduler|frontend|executor NAME",
		Short: "Make a key pair for tcp",
		Long: `Writes NAME.key, which stays with one process (--curve-key-file), and NAME.pub, which the other side
needs (--curve-peers-file): frontends and executors the scheduler's, the scheduler all of theirs in one file.
A key is for one role: with a frontend's key nobody can be an executor, and a peer's name stays with the key
that first used it until the scheduler starts again.`,
		Example: "  prefillonly keygen scheduler main && prefillonly keygen executor gpu-host && cat gpu-host.pub >> peers.pub",
		Args: cobra.MatchAll(cobra.ExactArgs(2), func(_ *cobra.Command, args []string) error {
			if !slices.Contains(roles, args[0]) {
				return fmt.Errorf("%q is no role, want one of scheduler, frontend, executor", args[0])
			}
			return nil
		}),
		ValidArgs: roles,
		RunE: func(command *cobra.Command, args []string) error {
			secret, public := args[1]+".key", args[1]+".pub"
			if err := mq.NewKeys(wire.Role(args[0]), secret, public); err != nil {
				return err
			}
			_, err := fmt.Fprintf(command.OutOrStdout(), "%s (keep it secret) and %s\n", secret, public)
			return err
		},
	}
}
