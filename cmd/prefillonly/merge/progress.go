package merge

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/prefillonly/prefillonly/merging"
	"github.com/prefillonly/prefillonly/merging/generations"
)

// progress says what happens in a merge: a line each, and on a terminal what is under way in the last one.
type progress struct {
	w        io.Writer
	terminal bool
	total    int64
	budget   time.Duration
	epochs   float64 // of the attempt
	open     bool    // the last line is to be written over
}

func newProgress(w io.Writer, plan *merging.Plan, budget time.Duration) *progress {
	f, ok := w.(*os.File)
	return &progress{w: w, total: plan.Total(), budget: budget, terminal: ok && term.IsTerminal(int(f.Fd()))}
}

// tell is told each event.
func (p *progress) tell(e generations.Event) {
	at := fmt.Sprintf("%6.1fs  ", e.At)
	switch e.Event {
	case generations.Resumed:
		p.epochs = e.Epochs
		p.line(at + "goes on from here")
	case generations.Tied:
		p.epochs = 0
		p.line(fmt.Sprintf("%sattempt %d: %d groups of layers, %s MiB (%.1f %%) less", at, e.Attempt, e.Layers, mebibytes(e.Saved), percent(e.Saved, p.total)))
	case generations.Training:
		p.status(fmt.Sprintf("%straining %.2f epochs behind %.2f, of %v", at, e.Epochs, p.epochs, p.budget))
	case generations.Trained:
		p.epochs += e.Epochs
		p.status(fmt.Sprintf("%strained %.2f epochs, of %v", at, p.epochs, p.budget))
	case generations.Scored:
		p.line(fmt.Sprintf("%s  %s: %.3f (at least %.3f) after %.2f epochs, %d objects", at, e.Model, e.Score.Value, e.Score.Low, p.epochs, e.Score.Objects))
	case generations.Shipped:
		p.line(fmt.Sprintf("%sgeneration %d: %s MiB (%.1f %%) less", at, *e.Number, mebibytes(e.Saved), percent(e.Saved, p.total)))
	case generations.Ended:
		p.line(at + e.Reason)
	}
}

const eraseLine = "\r\x1b[K"

// line writes a line that stays.
func (p *progress) line(text string) {
	p.end()
	fmt.Fprintln(p.w, text)
}

// status writes what is under way, on a terminal.
func (p *progress) status(text string) {
	if p.terminal {
		p.end()
		fmt.Fprint(p.w, text)
		p.open = true
	}
}

// end takes the status away.
func (p *progress) end() {
	if p.open {
		fmt.Fprint(p.w, eraseLine)
		p.open = false
	}
}
