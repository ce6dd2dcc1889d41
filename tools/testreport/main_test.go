package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReport runs go test on a module that has a test of each kind, and one that does not build.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":          "module m\n\ngo 1.26\n",
		"good/a_test.go":  "package a\nimport \"testing\"\nfunc TestPasses(t *testing.T) { t.Log(\"chatter\") }\nfunc TestSkips(t *testing.T) { t.Skip(\"there is no moon\") }\n",
		"bad/a_test.go":   "package a\nimport \"testing\"\nfunc TestFails(t *testing.T) { t.Error(\"one is not two\") }\n",
		"worse/a_test.go": "package a\nfunc f() { return 1 }\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(packages ...string) (string, bool) {
		cmd := exec.Command("go", append([]string{"test", "-json"}, packages...)...)
		cmd.Dir = dir
		events, _ := cmd.Output() // it fails where a test does
		var out strings.Builder
		failed, err := report(strings.NewReader(string(events)), &out)
		if err != nil {
			t.Fatal(err)
		}
		return out.String(), failed
	}
	text, failed := run("./good", "./bad", "./worse")
	for _, want := range []string{"ok  \tm/good", "one is not two", "FAIL\tm/bad", "too many return values", "Not run here, 1:\n  m/good TestSkips: a_test.go:4: there is no moon\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if strings.Contains(text, "chatter") || !failed {
		t.Errorf("failed %v, in\n%s", failed, text)
	}
	if text, failed := run("./good"); failed || strings.Contains(text, "PASS") {
		t.Errorf("a good package: failed %v, in\n%s", failed, text)
	}
}
