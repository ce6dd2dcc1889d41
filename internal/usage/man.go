package usage

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prefillonly/prefillonly/internal/config"
)

// ExitCode is a code that the program ends with.
type ExitCode struct {
	Code  int
	Means string
}

// Manual is the manual page of a program, in roff with the macros of man(7).
func Manual(root *cobra.Command, version string, codes []ExitCode) string {
	m := &manual{}
	m.write(root, version, codes)
	return m.text.String()
}

// manual is the page in the making.
type manual struct{ text strings.Builder }

func (m *manual) write(root *cobra.Command, version string, codes []ExitCode) {
	fmt.Fprintf(&m.text, ".TH PREFILLONLY 1 \"\" \"prefillonly %s\" \"User Commands\"\n", Roff(version))
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
	for _, e := range codes {
		m.item(fmt.Sprint(e.Code), e.Means)
	}
	m.section("EXAMPLES", "")
	m.text.WriteString(".nf\n" + Roff(root.Example) + "\n.fi\n")
}

func (m *manual) section(name, text string) {
	fmt.Fprintf(&m.text, ".SH %s\n%s\n", name, Roff(text))
}

// item is a term and what it means.
func (m *manual) item(term, text string) {
	fmt.Fprintf(&m.text, ".TP\n.B %s\n%s\n", Roff(term), Roff(text))
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
		fmt.Fprintf(&m.text, ".RS\n.TP\n.B %s\n%s\n.RE\n", Roff(strings.TrimSpace("--"+f.Name+" "+value)), Roff(usage))
	})
	for _, member := range c.Commands() {
		m.command(member)
	}
}

func (m *manual) group(g config.Group) {
	fmt.Fprintf(&m.text, ".SS %s\n", Roff(string(g)))
	for i := range config.Params {
		p := &config.Params[i]
		if p.Group != g {
			continue
		}
		m.item(p.Title(), p.Text())
	}
	if g != config.GroupModel {
		return
	}
	m.text.WriteString(".SS Keys of a model in models\n")
	for i := range config.ModelParams {
		p := &config.ModelParams[i]
		m.item(p.Name+": "+p.Value, p.Help)
	}
}

// Roff escapes what roff would take for its own.
func Roff(text string) string {
	text = strings.NewReplacer("\\", "\\e", "-", "\\-").Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = "\\&" + line
		}
	}
	return strings.Join(lines, "\n")
}
