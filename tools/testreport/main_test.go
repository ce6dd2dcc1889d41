package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
		"dead/a_test.go":  "package a\nimport (\"os\"; \"testing\")\nfunc TestMain(m *testing.M) { os.Exit(3) }\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	run := func(commands ...string) (text string, failed []string) {
		var out strings.Builder
		r := report{out: &out}
		for _, c := range commands {
			r.run(c)
		}
		if r.printLists() != (len(r.failed) == 0) {
			t.Errorf("%q: finish does not say whether anything failed", commands)
		}
		return out.String(), r.failed
	}
	text, failed := run("exit 3", "go test -json ./good ./bad ./worse", "echo a part behind those that failed", "go test -json ./dead ./good")
	for _, want := range []string{
		"ok  \tm/good", "one is not two", "FAIL\tm/bad", "too many return values", "a part behind those that failed",
		"Not run here, 2:\n  2, there is no moon (m/good TestSkips)\n", "Failed, 4:\n  exit 3: exit status 3\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	slices.Sort(failed)
	if want := []string{"exit 3: exit status 3", "m/bad TestFails", "m/dead", "m/worse [m/worse.test]: it does not build"}; !slices.Equal(failed, want) {
		t.Errorf("failed %q, want %q", failed, want)
	}
	if strings.Contains(text, "chatter") {
		t.Errorf("tests that passed speak in\n%s", text)
	}
	if text, failed := run("go test -json ./good"); len(failed) > 0 || strings.Contains(text, "PASS") {
		t.Errorf("a good package: failed %v, in\n%s", failed, text)
	}
}

// TestListOfSkipsIsShort: thousands of parts of tests that were not run are a line a reason, of bounded length and number.
func TestListOfSkipsIsShort(t *testing.T) {
	var skipped []skip
	for i := range 2000 {
		skipped = append(skipped, skip{"m/a", fmt.Sprintf("TestOperations/%d/x", i), "no such device"}, skip{"m/b", fmt.Sprint("Test", i), "no such processor"})
	}
	for i := range 100 {
		skipped = append(skipped, skip{"m/c", "TestFiles", fmt.Sprintf("file %02d is not there", i)})
	}
	lines := condense(skipped)
	if len(lines) != mostReasons+1 || lines[0] != "2000, no such device (m/a TestOperations)" || lines[1] != "2000, no such processor (m/b Test0, m/b Test1, m/b Test2 and 1997 more)" ||
		lines[2] != "1, file 00 is not there (m/c TestFiles)" || lines[mostReasons] != "62, for 62 other reasons; go test -v PACKAGE shows them" {
		t.Errorf("%d lines: %s", len(lines), strings.Join(lines, "\n"))
	}
}
