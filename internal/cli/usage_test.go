package cli

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/internal/config"
)

var rewrite = flag.Bool("rewrite", false, "rewrite configs/parameters.md")

// TestDocument: the document in configs is the table.
func TestDocument(t *testing.T) {
	const file = "../../configs/parameters.md"
	if *rewrite {
		if err := os.WriteFile(file, []byte(markdown()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != markdown() {
		t.Errorf("%s is not what the table says: run this test with -rewrite", file)
	}
}

// markdown is the table as a document.
func markdown() string {
	var b strings.Builder
	b.WriteString("# Parameters\n\nEach is a flag of `prefillonly serve` (and of the roles that read it), an environment variable and a key of\n" +
		"the `--config` file. Flags win over variables, these over the file, and that over the defaults.\n" +
		"`prefillonly config show` prints the values in force and where each came from.\n")
	for _, g := range config.Groups {
		fmt.Fprintf(&b, "\n## %s\n\n| flag and key | variable | default | meaning |\n|---|---|---|---|\n", g)
		for i := range config.Params {
			p := &config.Params[i]
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
		if g == config.GroupModel {
			b.WriteString("\n### Keys of a model in `models`\n\n| key | meaning |\n|---|---|\n")
			for i := range config.ModelParams {
				p := &config.ModelParams[i]
				fmt.Fprintf(&b, "| `%s: %s` | %s |\n", p.Name, strings.ReplaceAll(p.Value, "|", "\\|"), p.Help)
			}
		}
	}
	return b.String()
}

func TestHelp(t *testing.T) {
	all := parametersHelp(config.Serve, "all")
	for i := range config.Params {
		p := &config.Params[i]
		name := "--" + p.Name
		if p.Secret {
			name = p.Env()
		}
		if !strings.Contains(all, name) && !strings.Contains(all, "--[no-]"+p.Name) {
			t.Errorf("--help=all lacks %s", p.Name)
		}
	}
	for line := range strings.Lines(all) {
		if len(line) > helpWidth+1 {
			t.Errorf("a line of %d bytes: %s", len(line), line)
		}
	}
	if common := parametersHelp(config.Serve, "true"); len(common) >= len(all) || !strings.Contains(common, "--port") || strings.Contains(common, "--eviction") {
		t.Error("plain --help is not a part of all")
	}
	if cache := parametersHelp(config.Serve, "cache"); !strings.Contains(cache, "--kv-cache-memory-bytes") || strings.Contains(cache, "--port") {
		t.Errorf("--help=cache shows\n%s", cache)
	}
}
