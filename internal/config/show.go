package config

import (
	"fmt"
	"strings"
)

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
			fmt.Fprintf(&b, "%-45s # %s\n", p.Name+": "+quoteYAML(showValue(p.field(&l.Config))), l.Origin[p.Name])
		}
	}
	return b.String()
}

// quoteYAML quotes what YAML would not read back as the same text.
func quoteYAML(text string) string {
	if text == "" || strings.ContainsAny(text, ":#'\"\\{}[],&*!|>%@` \t\n") {
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	}
	return text
}
