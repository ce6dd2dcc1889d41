package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// newVersionCommand makes `prefillonly version`.
func newVersionCommand() *cobra.Command {
	command := &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs}
	asJSON := command.Flags().Bool("json", false, "as a JSON object")
	command.RunE = func(command *cobra.Command, _ []string) error {
		out := command.OutOrStdout()
		if *asJSON {
			return json.NewEncoder(out).Encode(map[string]string{"version": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH})
		}
		_, err := fmt.Fprintln(out, versionLine())
		return err
	}
	return command
}

func versionLine() string {
	return fmt.Sprintf("prefillonly %s (%s, %s/%s)", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
