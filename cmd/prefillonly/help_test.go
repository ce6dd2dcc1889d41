package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/usage"
)

// output runs a command that must succeed and say nothing on stderr.
func output(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := command(nil, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil || errs.Len() > 0 || out.Len() == 0 {
		t.Errorf("%q: %v, %d bytes on stdout, on stderr:\n%s", args, err, out.Len(), errs.String())
	}
	return out.String()
}

// paths are the words of every command that users see.
func paths(c *cobra.Command) (all [][]string) {
	for _, member := range c.Commands() {
		if !member.Hidden {
			all = append(all, strings.Fields(member.CommandPath())[1:])
			all = append(all, paths(member)...)
		}
	}
	return all
}

// TestEveryCommandHelps: on stdout, and with nothing but itself.
func TestEveryCommandHelps(t *testing.T) {
	for _, path := range paths(newRootCommand()) {
		text := output(t, append(path, "--help")...)
		if path[0] != "help" && !strings.Contains(text, "prefillonly "+strings.Join(path, " ")) {
			t.Errorf("%s --help does not show how it is used:\n%s", path, text)
		}
	}
}

// TestHelpShowsFlags: a command's own flags, its parameters by their titles, and no others.
func TestHelpShowsFlags(t *testing.T) {
	for line, roles := range map[string]config.Role{
		"serve": config.Serve, "config show": config.Serve, "healthcheck": config.Probe, "profile": config.Executor, "frontend": config.Frontend,
		"run-batch": config.Scheduler | config.Executor | config.Lines,
	} {
		text := output(t, append(strings.Fields(line), "--help=all")...)
		for i := range config.Params {
			p := &config.Params[i]
			if shown := strings.Contains(text, "\n  "+p.Title()+"\n"); shown != (p.Roles&roles != 0) {
				t.Errorf("%s --help=all shows %s: %v", line, p.Title(), shown)
			}
		}
	}
	for line, want := range map[string]string{
		"profile": "--max-tokens int", "frontend": "--name string", "healthcheck": "--config FILE", "config show": "--config FILE",
	} {
		if text := output(t, append(strings.Fields(line), "--help")...); !strings.Contains(text, want) {
			t.Errorf("%s --help lacks %q:\n%s", line, want, text)
		}
	}
}

func TestVersionForms(t *testing.T) {
	if flag, word := output(t, "--version"), output(t, "version"); flag != word || !strings.HasPrefix(flag, "prefillonly ") {
		t.Errorf("--version says %q, version %q", flag, word)
	}
}

// TestManualPage: commands, parameters and exit codes are all in it, and groff finds no fault.
func TestManualPage(t *testing.T) {
	page := output(t, "man")
	want := []string{".SH NAME", ".SH EXIT STATUS"}
	for i := range config.Params {
		want = append(want, ".B "+usage.Roff(config.Params[i].Title())+"\n")
	}
	for i := range config.ModelParams {
		p := &config.ModelParams[i]
		want = append(want, ".B "+usage.Roff(p.Name+": "+p.Value)+"\n")
	}
	for _, path := range paths(newRootCommand()) {
		if path[0] != "help" {
			want = append(want, ".B "+usage.Roff("prefillonly "+strings.Join(path, " ")))
		}
	}
	for _, e := range exitCodes {
		want = append(want, fmt.Sprintf(".B %d\n%s\n", e.Code, usage.Roff(e.Means)))
	}
	for _, w := range want {
		if !strings.Contains(page, w) {
			t.Errorf("the page lacks %q", w)
		}
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed; the page's form is not checked")
	}
	lint := exec.Command(groff, "-man", "-ww", "-z", "-Tutf8")
	lint.Stdin = strings.NewReader(page)
	if text, err := lint.CombinedOutput(); err != nil || len(text) > 0 {
		t.Errorf("groff: %v\n%s", err, text)
	}
}

// TestExitCodesAreWritten: the quick start has the table of exit.go.
func TestExitCodesAreWritten(t *testing.T) {
	text, err := os.ReadFile("../../docs/quickstart.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range exitCodes {
		if row := fmt.Sprintf("| %d | %s |\n", e.Code, e.Means); !strings.Contains(string(text), row) {
			t.Errorf("docs/quickstart.md lacks %q", row)
		}
	}
}

// TestCompletion asks as a shell does.
func TestCompletion(t *testing.T) {
	complete := func(words ...string) []string {
		t.Helper()
		text, err := command(nil, append([]string{"__completeNoDesc"}, words...)...).Output()
		if err != nil {
			t.Fatalf("%q: %v", words, err)
		}
		return strings.Fields(string(text))
	}
	for i := range config.Params {
		if p := &config.Params[i]; p.Choices != nil {
			if got := complete("serve", "--"+p.Name, ""); !slices.Equal(got[:len(got)-1], p.Choices) {
				t.Errorf("--%s: %q are offered, want %q", p.Name, got, p.Choices)
			}
		}
	}
	for _, c := range []struct{ words, want string }{
		{"serve --device c", "cpu cuda null :4"},
		{"serve --port ", ":4"},
		{"serve --api-key-file ", ":0"},
		{"serve --runtime-dir ", ":16"},
		{"serve --config ", "yaml yml :8"},
		{"serve ", ":16"},
		{"keygen f", "frontend :4"},
		{"simulate flo", "flood :4"},
		{"bench serve --workload p", "post-recommendation credit-verification :0"},
	} {
		if got := strings.Join(complete(strings.Split(c.words, " ")...), " "); got != c.want {
			t.Errorf("%q: %q is offered, want %q", c.words, got, c.want)
		}
	}
}
