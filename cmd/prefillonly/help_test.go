package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/prefillonly/prefillonly/internal/cli"
	"github.com/prefillonly/prefillonly/internal/config"
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

// TestManual: commands, parameters and exit codes are all in it, man finds the pages by their names, and groff finds no
// fault.
func TestManual(t *testing.T) {
	dir := t.TempDir()
	if out, err := command(nil, "man", "--dir", dir).CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("man --dir: %v\n%s", err, out)
	}
	page := func(file string) string {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	want := func(file string, text string) {
		t.Helper()
		if !strings.Contains(page(file), text) {
			t.Errorf("%s lacks %q", file, text)
		}
	}
	for i := range config.Params {
		p := &config.Params[i]
		if p.Roles&config.Serve != 0 {
			want("prefillonly-serve.1", ".B "+cli.Roff(p.Title())+"\n")
		}
		want("prefillonly.yaml.5", ".B "+cli.Roff(p.Name+": "))
	}
	for i := range config.ModelParams {
		p := &config.ModelParams[i]
		want("prefillonly.yaml.5", ".B "+cli.Roff(p.Name+": "+p.Value)+"\n")
	}
	for _, path := range paths(newRootCommand()) {
		want("prefillonly-"+path[0]+".1", ".B "+cli.Roff("prefillonly "+strings.Join(path, " ")))
		want("prefillonly.1", ".B "+cli.Roff("prefillonly-"+path[0])+"(1)")
	}
	for _, e := range exitCodes {
		want("prefillonly.1", fmt.Sprintf(".B %d\n%s\n", e.Code, cli.Roff(e.Means)))
	}
	for word, file := range map[string]string{"prefillonly": "prefillonly.1", "serve": "prefillonly-serve.1", "prefillonly.yaml": "prefillonly.yaml.5"} {
		if output(t, "man", word) != page(file) {
			t.Errorf("man %s is not %s", word, file)
		}
	}
	if output(t, "man") != page("prefillonly.1") {
		t.Error("man alone is not the page of prefillonly")
	}
	if err := command(nil, "man", "nothing").Run(); exitStatus(err) != cli.ExitUsage {
		t.Errorf("man nothing: %v", err)
	}
	lintPages(t, dir)
}

func exitStatus(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

func lintPages(t *testing.T, dir string) {
	t.Helper()
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed; the pages' form is not checked")
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.[15]"))
	for _, file := range files {
		if text, err := exec.Command(groff, "-man", "-ww", "-z", "-Tutf8", file).CombinedOutput(); err != nil || len(text) > 0 {
			t.Errorf("groff: %v\n%s", err, text)
		}
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
		{"bench serve --workload p", "post-recommendation credit-verification short-prompts :0"},
	} {
		if got := strings.Join(complete(strings.Split(c.words, " ")...), " "); got != c.want {
			t.Errorf("%q: %q is offered, want %q", c.words, got, c.want)
		}
	}
}
