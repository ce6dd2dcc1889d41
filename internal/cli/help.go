package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prefillonly/prefillonly/internal/config"
)

// helpTopic is a --help that may be given a group or a word: --help=all, --help=device, --help=cache.
type helpTopic struct{ topic string }

func (h *helpTopic) Set(v string) error { h.topic = v; return nil }
func (h *helpTopic) Type() string       { return "bool" } // cobra insists

func (h *helpTopic) String() string {
	if h.topic == "" {
		return "false"
	}
	return "true"
}

// AddHelp gives the command a --help of its own flags, and of the parameters of roles by group.
func AddHelp(command *cobra.Command, roles config.Role) {
	topic := new(helpTopic)
	command.Flags().VarPF(topic, "help", "h", "show help; =all for every parameter, =WORD for those with a word").NoOptDefVal = "true"
	command.SetHelpFunc(func(command *cobra.Command, _ []string) {
		var b strings.Builder
		about := command.Long
		if about == "" {
			about = command.Short
		}
		b.WriteString(about + "\n\nUsage:\n  " + command.UseLine() + "\n\nExamples:\n" + command.Example + "\n\n")
		b.WriteString("Flags:\n" + ownFlags(command).FlagUsages() + "\n")
		b.WriteString(parametersHelp(roles, topic.topic))
		if topic.topic == "true" {
			b.WriteString("Every parameter can also be a variable (PREFILLONLY_MAX_MODEL_LEN) or a key of the --config file\n" +
				"(max-model-len); flags win over variables, and these over the file. --help=all lists the rest.\n")
		}
		fmt.Fprint(command.OutOrStdout(), b.String())
	})
}

// ownFlags are a command's flags that are no parameters.
func ownFlags(command *cobra.Command) *pflag.FlagSet {
	own := pflag.NewFlagSet(command.Name(), pflag.ContinueOnError)
	command.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && config.Find(f.Name) == nil {
			own.AddFlag(f)
		}
	})
	return own
}
