package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/internal/version"
)

// newVersionCommand makes `prefillonly version`.
func newVersionCommand() *cobra.Command {
	command := &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs}
	asJSON := command.Flags().Bool("json", false, "print a JSON object")
	command.RunE = func(command *cobra.Command, _ []string) error {
		out := command.OutOrStdout()
		if *asJSON {
			return json.NewEncoder(out).Encode(map[string]string{"version": version.Release, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH})
		}
		_, err := fmt.Fprintln(out, version.Line("prefillonly"))
		return err
	}
	return command
}
