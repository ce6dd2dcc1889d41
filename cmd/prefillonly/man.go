package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prefillonly/prefillonly/internal/config"
)

// newManCommand makes `prefillonly man`.
func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man",
		Short:   "Print the manual page",
		Example: "  prefillonly man | man -l -",
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			m := &manual{}
			m.write(command.Root())
			_, err := io.WriteString(command.OutOrStdout(), m.text.String())
			return err
		},
	}
}

// manual is the page in the making, in roff with the macros of man(7).
type manual struct{ text strings.Builder }

func (m *manual) write(root *cobra.Command) {
	fmt.Fprintf(&m.text, ".TH PREFILLONLY 1 \"\" \"prefillonly %s\" \"User Commands\"\n", roff(version))
	m.section("NAME", "prefillonly - "+root.Short)
	m.section("SYNOPSIS", "prefillonly COMMAND [ARGUMENTS]")
	m.section("DESCRIPTION", root.Long)
	m.section("COMMANDS", "")
	for _, c := range root.Commands() {
		m.command(c)
	}
	m.section("PARAMETERS", "Flags of serve, and of the roles that read them. Each is also a variable (PREFILLONLY_MAX_MODEL_LEN) and a key of the --config file (max-model-len), which PREFILLONLY_CONFIG names too. Flags win over variables, these over the file.")
	for _, g := range config.Groups {
		m.group(g)
	}
	m.section("EXIT STATUS", "")
	for _, e := range exitCodes {
		m.item(fmt.Sprint(e.code), e.means)
	}
	m.section("EXAMPLES", "")
	m.text.WriteString(".nf\n" + roff(root.Example) + "\n.fi\n")
}

func (m *manual) section(name, text string) {
	fmt.Fprintf(&m.text, ".SH %s\n%s\n", name, roff(text))
}

// item is a term and what it means.
func (m *manual) item(term, text string) {
	fmt.Fprintf(&m.text, ".TP\n.B %s\n%s\n", roff(term), roff(text))
}

// command describes a command, the flags it alone has, and the commands below it.
func (m *manual) command(c *cobra.Command) {
	if c.Hidden || c.Name() == "help" {
		return
	}
	m.item(strings.TrimSuffix(c.UseLine(), " [flags]"), c.Short)
	ownFlags(c).VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		fmt.Fprintf(&m.text, ".RS\n.TP\n.B %s\n%s\n.RE\n", roff(strings.TrimSpace("--"+f.Name+" "+value)), roff(usage))
	})
	for _, member := range c.Commands() {
		m.command(member)
	}
}

func (m *manual) group(g config.Group) {
	fmt.Fprintf(&m.text, ".SS %s\n", roff(string(g)))
	for i := range config.Params {
		p := &config.Params[i]
		if p.Group != g {
			continue
		}
		text := p.Help
		if standard := p.Default(); standard != "" && p.Value != "" && standard != "0" {
			text += " (default " + standard + ")"
		}
		m.item(p.Title(), text)
	}
}

// roff escapes what roff would take for its own.
func roff(text string) string {
	text = strings.NewReplacer("\\", "\\e", "-", "\\-").Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = "\\&" + line
		}
	}
	return strings.Join(lines, "\n")
}
