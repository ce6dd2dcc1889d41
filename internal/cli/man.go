package cli

import (
	"cmp"
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

// Page is a manual page, in roff with the macros of man(7).
type Page struct {
	File string // prefillonly-serve.1
	Text string
}

// Manual is the manual of a program: the page of all, one of each of its commands, and that of the configuration's file.
func Manual(root *cobra.Command, version string, codes []ExitCode) []Page {
	pages := []Page{overview(root, version, codes)}
	for _, c := range listedCommands(root) {
		pages = append(pages, commandPage(c, version))
	}
	return append(pages, filePage(version))
}

// listedCommands are the commands below c that have something to say.
func listedCommands(c *cobra.Command) (list []*cobra.Command) {
	for _, member := range c.Commands() {
		if !member.Hidden && member.Name() != "help" {
			list = append(list, member)
		}
	}
	return list
}

func overview(root *cobra.Command, version string, codes []ExitCode) Page {
	m := newManual("prefillonly", "1", version, root.Short)
	m.writeSection("SYNOPSIS", "prefillonly COMMAND [ARGUMENTS]")
	m.writeSection("DESCRIPTION", root.Long)
	m.writeSection("COMMANDS", "Each has a page of its own.")
	for _, c := range listedCommands(root) {
		m.item(pageName(c)+"(1)", c.Short)
	}
	m.writeSection("FILES", "")
	m.item("/etc/prefillonly/prefillonly.yaml", "parameters of the service, see prefillonly.yaml(5)")
	m.item("/etc/default/prefillonly", "variables of the service: keys and tokens")
	m.writeSection("EXIT STATUS", "")
	for _, e := range codes {
		m.item(fmt.Sprint(e.Code), e.Means)
	}
	m.writeExamples(root.Example)
	m.writeSection("SEE ALSO", "prefillonly.yaml(5), prefillonly-serve(1)")
	return m.toPage()
}

// commandPage describes a command and those below it.
func commandPage(c *cobra.Command, version string) Page {
	m := newManual(pageName(c), "1", version, c.Short)
	m.writeSection("SYNOPSIS", "")
	for _, part := range append([]*cobra.Command{c}, listedCommands(c)...) {
		m.item(synopsis(part), part.Short)
	}
	m.writeSection("DESCRIPTION", aboutText(c))
	if hasParams(c) {
		m.text.WriteString(".PP\n" + Roff("Every parameter is also a variable (PREFILLONLY_MAX_MODEL_LEN) and a key of the file of --config (max-model-len), which PREFILLONLY_CONFIG names too. Flags win over variables, these over the file.") + "\n")
	}
	m.writeFlags("OPTIONS", c)
	for _, member := range listedCommands(c) {
		m.writeSection(strings.ToUpper(member.Name()), aboutText(member))
		m.writeFlags("", member)
		m.writeLiteral(member.Example)
	}
	m.writeExamples(c.Example)
	m.writeSection("SEE ALSO", "prefillonly(1), prefillonly.yaml(5)")
	return m.toPage()
}

// filePage describes the keys of the file of --config.
func filePage(version string) Page {
	m := newManual("prefillonly.yaml", "5", version, "parameters of a server")
	m.writeSection("DESCRIPTION", "A YAML file of keys and values that --config or PREFILLONLY_CONFIG names. Each key is also a flag of prefillonly-serve(1), and a variable: max-model-len is PREFILLONLY_MAX_MODEL_LEN. Flags win over variables, these over the file, and that over the defaults. An unknown key, or one that is given twice, is an error. `prefillonly config check` reads a file as serve would.")
	for _, g := range config.Groups {
		m.writeGroup(g, strings.ToUpper(string(g)), func(*config.Param) bool { return true }, func(p *config.Param) string { return p.Name + ": " + cmp.Or(p.Value, "true|false") })
	}
	m.writeExamples("  model: /srv/models/Qwen2.5-0.5B-Instruct\n  host: 0.0.0.0\n  api-key-file: /etc/prefillonly/api-keys")
	m.writeSection("SEE ALSO", "prefillonly-serve(1), prefillonly-config(1)")
	return m.toPage()
}

func pageName(c *cobra.Command) string  { return strings.ReplaceAll(c.CommandPath(), " ", "-") }
func synopsis(c *cobra.Command) string  { return strings.TrimSuffix(c.UseLine(), " [flags]") }
func aboutText(c *cobra.Command) string { return cmp.Or(c.Long, c.Short+".") }

// hasParams says whether the command takes any of the table's.
func hasParams(c *cobra.Command) (any bool) {
	c.Flags().VisitAll(func(f *pflag.Flag) { any = any || config.Find(f.Name) != nil })
	return any
}

// manual is a page in the making.
type manual struct {
	file string
	text strings.Builder
}

func newManual(name, section, version, short string) *manual {
	m := &manual{file: name + "." + section}
	fmt.Fprintf(&m.text, ".TH %s %s \"\" \"prefillonly %s\"\n", strings.ToUpper(Roff(name)), section, Roff(version))
	m.writeSection("NAME", "")
	m.text.WriteString(Roff(name) + " \\- " + Roff(strings.TrimSuffix(short, ".")) + "\n")
	return m
}

func (m *manual) toPage() Page { return Page{m.file, m.text.String()} }

func (m *manual) writeSection(name, text string) {
	fmt.Fprintf(&m.text, ".SH %s\n", Roff(name))
	if text != "" {
		m.text.WriteString(Roff(text) + "\n")
	}
}

// item is a term and what it means.
func (m *manual) item(term, text string) {
	fmt.Fprintf(&m.text, ".TP\n.B %s\n%s\n", Roff(term), Roff(text))
}

func (m *manual) writeExamples(text string) {
	if text != "" {
		m.writeSection("EXAMPLES", "")
		m.writeLiteral(text)
	}
}

func (m *manual) writeLiteral(text string) {
	if text != "" {
		m.text.WriteString(".PP\n.nf\n" + Roff(text) + "\n.fi\n")
	}
}

// writeFlags are those that the command alone has, then its parameters by group.
func (m *manual) writeFlags(header string, c *cobra.Command) {
	if header != "" {
		m.writeSection(header, "")
	}
	ownFlags(c).VisitAll(func(f *pflag.Flag) {
		value, usage := pflag.UnquoteUsage(f)
		if f.Name == "help" {
			value = ""
		}
		m.item(strings.TrimSpace("--"+f.Name+" "+value), usage)
	})
	for _, g := range config.Groups {
		m.writeGroup(g, "", func(p *config.Param) bool { return p.Secret && hasParams(c) || c.Flags().Lookup(p.Name) != nil }, (*config.Param).Title)
	}
}

// writeGroup lists the parameters of a group that some are meant of, under a section's name or else a heading.
func (m *manual) writeGroup(g config.Group, section string, meant func(*config.Param) bool, title func(*config.Param) string) {
	header := fmt.Sprintf(".SS %s\n", Roff(string(g)))
	if section != "" {
		header = fmt.Sprintf(".SH %s\n", Roff(section))
	}
	any := false
	for i := range config.Params {
		p := &config.Params[i]
		if p.Group != g || !meant(p) {
			continue
		}
		m.text.WriteString(header)
		m.item(title(p), paramMeaning(p))
		header, any = "", true
	}
	if g != config.GroupModel || !any {
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
