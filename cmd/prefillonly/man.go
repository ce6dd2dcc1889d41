package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/internal/usage"
)

// newManCommand makes `prefillonly man`.
func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man",
		Short:   "Print the manual page",
		Example: "  prefillonly man | man -l -",
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := io.WriteString(command.OutOrStdout(), usage.Manual(command.Root(), version, exitCodes))
			return err
		},
	}
}
