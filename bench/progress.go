package bench

import (
	"fmt"
	"io"
	"time"
)

// quietFor is how long a progress that is no terminal's says nothing.
const quietFor = 5 * time.Second

// Progress tells how far a long run is: one line that changes on a terminal, a line now and then elsewhere.
type Progress struct {
	out      io.Writer
	terminal bool
	start    time.Time
	said     time.Time
	runs     int
}

// NewProgress tells out, a terminal or not.
func NewProgress(out io.Writer, terminal bool) *Progress {
	return &Progress{out: out, terminal: terminal, start: time.Now(), said: time.Now()}
}

// Show tells what runs next; an empty text makes room for other output.
func (p *Progress) Show(what string) {
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
	if what == "" {
		return
	}
	p.runs++
	line := fmt.Sprintf("%v, run %d: %s", time.Since(p.start).Round(time.Second), p.runs, what)
	switch {
	case p.terminal:
		fmt.Fprint(p.out, line)
	case time.Since(p.said) >= quietFor:
		p.said = time.Now()
		fmt.Fprintln(p.out, line)
	}
}
