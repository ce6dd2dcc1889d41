package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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

// TestProgress: every run on a terminal, a line now and then elsewhere.
func TestProgress(t *testing.T) {
	var out strings.Builder
	p := newProgress(&out, true)
	p.show("a")
	p.show("")
	if got, want := out.String(), "\r\x1b[K0s, run 1: a\r\x1b[K"; got != want {
		t.Errorf("a terminal shows %q, want %q", got, want)
	}
	out.Reset()
	p = newProgress(&out, false)
	p.show("a")
	p.said = p.said.Add(-quietFor)
	p.start = p.start.Add(-72 * time.Second)
	p.show("b")
	p.show("c")
	p.show("")
	if got, want := out.String(), "1m12s, run 2: b\n"; got != want {
		t.Errorf("a log shows %q, want %q", got, want)
	}
}
