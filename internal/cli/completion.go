package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prefillonly/prefillonly/internal/config"
)

// AddCompletion lets the shell complete the values of the command's parameters: a choice, a file, or nothing;
// an argument is a model's directory.
func AddCompletion(command *cobra.Command) {
	command.Flags().VisitAll(func(f *pflag.Flag) {
		if p := config.Find(f.Name); p != nil && p.Value != "" {
			CompleteFlag(command, f.Name, parameterValues(p))
		}
	})
	CompleteFlag(command, "config", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
	})
	command.ValidArgsFunction = cobra.NoFileCompletions
	if strings.Contains(command.Use, "[MODEL") {
		command.ValidArgsFunction = Directories
	}
}

func parameterValues(p *config.Param) cobra.CompletionFunc {
	switch {
	case p.Choices != nil:
		return cobra.FixedCompletions(p.Choices, cobra.ShellCompDirectiveNoFileComp)
	case p.Name == "device":
		return cobra.FixedCompletions([]string{"cpu", "cuda", "null"}, cobra.ShellCompDirectiveNoFileComp)
	case strings.HasPrefix(p.Value, "DIR"):
		return Directories
	case p.Value == "FILE":
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	}
	return cobra.NoFileCompletions
}

// Directories completes the name of a directory.
func Directories(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// CompleteFlag is for flags that exist; another is a mistake in this program.
func CompleteFlag(command *cobra.Command, name string, values cobra.CompletionFunc) {
	if err := command.RegisterFlagCompletionFunc(name, values); err != nil {
		panic(err)
	}
}
