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
