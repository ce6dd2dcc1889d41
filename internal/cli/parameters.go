package cli

import (
	"strings"

	"github.com/prefillonly/prefillonly/internal/config"
)

// helpWidth is where the help breaks its lines.
const helpWidth = 100

// parametersHelp lists the parameters of the roles by group. Topic "true" shows the common ones, "all" all,
// another word those whose group, name or text has it.
func parametersHelp(roles config.Role, topic string) string {
	var b strings.Builder
	for _, g := range config.Groups {
		header := string(g) + ":\n"
		for i := range config.Params {
			p := &config.Params[i]
			if p.Group != g || p.Roles&roles == 0 || !isAbout(p, topic) {
				continue
			}
			b.WriteString(header)
			header = ""
			b.WriteString(helpItem(p.Title(), paramMeaning(p)))
		}
		if header == "" {
			b.WriteString("\n")
		}
		if g == config.GroupModel && config.Find("models").Roles&roles != 0 {
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
	for i := range config.ModelParams {
		p := &config.ModelParams[i]
		b.WriteString(helpItem(p.Name+": "+p.Value, p.Help))
	}
	b.WriteString("\n")
}

// isAbout says that the help of a topic shows the parameter.
func isAbout(p *config.Param, topic string) bool {
	topic = strings.ToLower(topic)
	switch topic {
	case "true", "":
		return p.Common
	case "all":
		return true
	}
	return strings.Contains(strings.ToLower(string(p.Group)+" "+p.Name+" "+p.Help), topic)
}

// paramMeaning is what the parameter means, and its default.
func paramMeaning(p *config.Param) string {
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
