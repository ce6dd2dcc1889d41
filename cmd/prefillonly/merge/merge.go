// Package merge holds the subcommands of `prefillonly merge`: which layers of networks could have the same weights, and networks trained until they do.
// It is apart because subcommands stand beside the root by their subject.
package merge

import (
	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/internal/cli"
)

// New makes `prefillonly merge`, which asks servers so.
func New(openServer func(address, keyFile string) (Get, error)) *cobra.Command {
	return newGroup(&runFlags{trainerOf: localTrainer, openServer: openServer})
}

// newGroup makes the commands.
func newGroup(f *runFlags) *cobra.Command {
	return cli.Group(&cobra.Command{Use: "merge", Short: "Have networks share weights"}, newPlan(), newRun(f), newStatus(), newRevert())
}
