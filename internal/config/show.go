package config

import (
	"fmt"
	"strings"
)

// helpWidth is where the help breaks its lines.
const helpWidth = 100

// Help lists the parameters of the roles by group. Topic "true" shows the common ones, "all" all,
// another word those whose group, name or text has it.
func Help(roles Role, topic string) string {
	var b strings.Builder
	for _, g := range Groups {
		header := string(g) + ":\n"
		for i := range Params {
			p := &Params[i]
			if p.Group != g || p.Roles&roles == 0 || !p.about(topic) {
				continue
			}
			b.WriteString(header)
			header = ""
			b.WriteString(p.help())
		}
		if header == "" {
			b.WriteString("\n")
		}
		if g == GroupModel && Find("models").Roles&roles != 0 {
			writeModelKeys(&b, topic)
		}
	}
	return b.String()
}

// writeModelKeys lists the keys of a model where the topic is about them.
func writeModelKeys(b *strings.Builder, topic string) {
	if topic != "all" && topic != "models" {
		return
	}
	b.WriteString("Keys of a model in models:\n")
	for i := range ModelParams {
		p := &ModelParams[i]
		b.WriteString(helpItem(p.Name+": "+p.Value, p.Help))
	}
	b.WriteString("\n")
}

func (p *Param) about(topic string) bool {
	topic = strings.ToLower(topic)
	switch topic {
	case "true", "":
		return p.Common
	case "all":
		return true
	}
	return strings.Contains(strings.ToLower(string(p.Group)+" "+p.Name+" "+p.Help), topic)
}

func (p *Param) help() string { return helpItem(p.Title(), p.Text()) }

// Text is what the parameter means, and its default.
func (p *Param) Text() string {
	if standard := p.Default(); standard != "" && p.Value != "" && standard != "0" {
		return p.Help + " (default " + standard + ")"
	}
	return p.Help
}

// helpItem is a title, and below it a text in lines of helpWidth.
func helpItem(title, text string) string {
	const indent = "        "
	var b strings.Builder
	b.WriteString("  " + title + "\n" + indent)
	column := len(indent)
	for i, word := range strings.Fields(text) {
		if i > 0 && column+1+len(word) > helpWidth {
			b.WriteString("\n" + indent)
			column = len(indent)
		} else if i > 0 {
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	b.WriteString("\n")
	return b.String()
}

// YAML shows every parameter with its origin, as a file that Load reads. Secrets are left out.
func (l *Loaded) YAML() string {
	var b strings.Builder
	for _, g := range Groups {
		fmt.Fprintf(&b, "# %s\n", g)
		for i := range Params {
			p := &Params[i]
			if p.Group != g {
				continue
			}
			if p.Secret {
				if l.Origin[p.Name] != "default" {
					fmt.Fprintf(&b, "# %s: set by %s, not shown\n", p.Name, l.Origin[p.Name])
				}
				continue
			}
			if p.Name == "models" && len(l.Models) > 0 {
				b.WriteString(ModelsYAML(l.Models))
				continue
			}
			fmt.Fprintf(&b, "%-45s # %s\n", p.Name+": "+quote(show(p.field(&l.Config))), l.Origin[p.Name])
		}
	}
	return b.String()
}

// quote quotes what YAML would not read back as the same text.
func quote(text string) string {
	if text == "" || strings.ContainsAny(text, ":#'\"\\{}[],&*!|>%@` \t\n") {
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	}
	return text
}

// Markdown is the table as a document.
func Markdown() string {
	var b strings.Builder
	b.WriteString("# Parameters\n\nEach is a flag of `prefillonly serve` (and of the roles that read it), an environment variable and a key of\n" +
		"the `--config` file. Flags win over variables, these over the file, and that over the defaults.\n" +
		"`prefillonly config show` prints the values in force and where each came from.\n")
	for _, g := range Groups {
		fmt.Fprintf(&b, "\n## %s\n\n| flag and key | variable | default | meaning |\n|---|---|---|---|\n", g)
		for i := range Params {
			p := &Params[i]
			if p.Group != g {
				continue
			}
			name := "`--" + p.Name + "`"
			if p.Secret {
				name = "`" + p.Name + "` (no flag)"
			}
			value := p.Default()
			if value != "" {
				value = "`" + value + "`"
			}
			fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", name, p.Env(), value, strings.ReplaceAll(p.Help, "|", "\\|"))
		}
		if g == GroupModel {
			b.WriteString("\n### Keys of a model in `models`\n\n| key | meaning |\n|---|---|\n")
			for i := range ModelParams {
				p := &ModelParams[i]
				fmt.Fprintf(&b, "| `%s: %s` | %s |\n", p.Name, strings.ReplaceAll(p.Value, "|", "\\|"), p.Help)
			}
		}
	}
	return b.String()
}
