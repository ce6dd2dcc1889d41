package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTableIsShown: with --csv the table is on stdout too, and the file is named.
func TestTableIsShown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.csv")
	text := output(t, "simulate", "table-5.2", "--csv", file)
	if csv, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(csv), "machine,model,method,") {
		t.Errorf("%v, %.60q in the file", err, csv)
	}
	if !strings.Contains(text, "| H100 ") || !strings.Contains(text, "written to "+file) {
		t.Errorf("on stdout is\n%s", text)
	}
}

// TestCSVIsOfTwoExperiments: for others --csv is refused, and what to give is said.
func TestCSVIsOfTwoExperiments(t *testing.T) {
	for _, args := range [][]string{{"feeds"}, {"stages", "table-5.2"}} {
		text, err := command(nil, append([]string{"simulate", "--csv", t.TempDir()}, args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(text), "give --out a folder") {
			t.Errorf("%q: got %v, %s", args, err, text)
		}
	}
}
