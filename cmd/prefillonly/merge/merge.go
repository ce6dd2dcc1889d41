// Package merge holds the subcommands of `prefillonly merge`: which layers of networks could have the same weights, and networks trained until they do.
// It is apart because subcommands stand beside the root by their subject.
package merge

import (
	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/merging/search"
	"github.com/prefillonly/prefillonly/merging/trainer"
)

// New makes `prefillonly merge`.
func New() *cobra.Command { return newGroup(localTrainer) }

// newGroup makes the commands, with the trainer that a policy wants.
func newGroup(trainerOf func(search.Policy) trainer.Trainer) *cobra.Command {
	return cli.Group(&cobra.Command{Use: "merge", Short: "Have networks share weights"}, newPlan(), newRun(trainerOf), newStatus(), newRevert())
}
