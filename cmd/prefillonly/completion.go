package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prefillonly/prefillonly/internal/config"
)

// completeParameters lets the shell complete the values of the command's parameters: a choice, a file, or nothing;
// an argument is a model's directory.
func completeParameters(command *cobra.Command) {
	command.Flags().VisitAll(func(f *pflag.Flag) {
		if p := config.Find(f.Name); p != nil && p.Value != "" {
			completeFlag(command, f.Name, parameterValues(p))
		}
	})
	completeFlag(command, "config", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
	})
	command.ValidArgsFunction = cobra.NoFileCompletions
	if strings.HasSuffix(command.Use, "[MODEL]") {
		command.ValidArgsFunction = directories
	}
}

func parameterValues(p *config.Param) cobra.CompletionFunc {
	switch {
	case p.Choices != nil:
		return cobra.FixedCompletions(p.Choices, cobra.ShellCompDirectiveNoFileComp)
	case p.Name == "device":
		return cobra.FixedCompletions([]string{"cpu", "cuda", "null"}, cobra.ShellCompDirectiveNoFileComp)
	case strings.HasPrefix(p.Value, "DIR"):
		return directories
	case p.Value == "FILE":
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	}
	return cobra.NoFileCompletions
}

func directories(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// completeFlag is for flags that exist; another is a mistake in this program.
func completeFlag(command *cobra.Command, name string, values cobra.CompletionFunc) {
	if err := command.RegisterFlagCompletionFunc(name, values); err != nil {
		panic(err)
	}
}
