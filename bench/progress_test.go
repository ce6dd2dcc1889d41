package bench

import (
	"strings"
	"testing"
	"time"
)

// TestProgress: every run on a terminal, a line now and then elsewhere.
func TestProgress(t *testing.T) {
	var out strings.Builder
	p := NewProgress(&out, true)
	p.Show("a")
	p.Show("")
	if got, want := out.String(), "\r\x1b[K0s, run 1: a\r\x1b[K"; got != want {
		t.Errorf("a terminal shows %q, want %q", got, want)
	}
	out.Reset()
	p = NewProgress(&out, false)
	p.Show("a")
	p.said = p.said.Add(-quietFor)
	p.start = p.start.Add(-72 * time.Second)
	p.Show("b")
	p.Show("c")
	p.Show("")
	if got, want := out.String(), "1m12s, run 2: b\n"; got != want {
		t.Errorf("a log shows %q, want %q", got, want)
	}
}
