package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// outcome is what became of a request.
type outcome int

// The outcomes. The last three are never right; a lost one is where its frontend was struck.
const (
	answered outcome = iota
	refused          // as it should be
	left             // by its client
	busy             // refused for now: 429 or 503; asked again
	lost             // its connection ended; asked again
	failed
	wrong
	hung
	outcomes
)

var outcomeNames = [outcomes]string{"answered", "refused", "left", "busy, asked again", "lost, asked again", "failed", "wrong", "hung"}

// tally is the requests of a kind.
type tally struct {
	asked int
	count [outcomes]int
	took  []time.Duration // until the answer, from the first time that it was asked for
}

// loss is a connection that ended with its request.
type loss struct {
	asked, ended time.Time
	note         string
}

// report is what a soak has seen.
type report struct {
	config config
	memory memory
	took   time.Duration

	streams *streams // nil: there are none

	mu      sync.Mutex
	tallies map[string]*tally // guarded by mu; by kind
	faults  []fault           // guarded by mu
	losses  []loss            // guarded by mu
	notes   []string          // guarded by mu; the first of what went wrong
}

// maxNotes bounds the notes.
const maxNotes = 20

func newReport(c config) *report { return &report{config: c, tallies: map[string]*tally{}} }

func (r *report) addOutcome(k *kind, o outcome, note string, asked time.Time, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tallies[k.name]
	if t == nil {
		t = &tally{}
		r.tallies[k.name] = t
	}
	t.count[o]++
	switch {
	case o == lost:
		r.losses = append(r.losses, loss{asked, time.Now(), note})
	case o == busy: // asked again
	default:
		t.asked++
	}
	if o == answered {
		t.took = append(t.took, took)
	}
	if o >= failed && len(r.notes) < maxNotes {
		r.notes = append(r.notes, fmt.Sprintf("%s, %s: %s", k.name, outcomeNames[o], note))
	}
}

func (r *report) addFault(f fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, f)
}

// slack is how long before its successor was seen, or after, a frontend's death may be noticed.
const slack = time.Second

// isExplained says that a frontend was struck while the request was open.
func (l *loss) isExplained(faults []fault) bool {
	return slices.ContainsFunc(faults, func(f fault) bool {
		return f.role == "frontend" && l.asked.Before(f.over.Add(slack)) && l.ended.After(f.at.Add(-slack))
	})
}

// verdict is an error unless every request got what it should and every process's memory is flat.
func (r *report) verdict() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, k := range kinds {
		t := r.tallies[k.name]
		if t == nil {
			continue
		}
		for o := failed; o < outcomes; o++ {
			if t.count[o] > 0 {
				errs = append(errs, fmt.Errorf("%s: %d %s", k.name, t.count[o], outcomeNames[o]))
			}
		}
	}
	for _, l := range r.losses {
		if !l.isExplained(r.faults) {
			errs = append(errs, fmt.Errorf("a connection ended though no frontend was struck: %s", l.note))
		}
	}
	for _, l := range r.memory.lives {
		if warm, last, grew := r.memory.hasGrown(l, r.config.flatWithin); grew {
			errs = append(errs, fmt.Errorf("%s (process %d) grew from %s to %s", l.name, l.pid, formatMiB(warm), formatMiB(last)))
		}
	}
	return errors.Join(append(errs, r.streams.verdict())...)
}

func formatMiB(n int64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }

// writeTables prints the tables in Markdown.
func (r *report) writeTables(w io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(w, "%d clients, %d frontends, device %s, %v, %d faults\n\n", r.config.clients, r.config.frontends, r.config.device, r.took.Round(time.Second), len(r.faults))
	r.writeRequests(w)
	r.writeFaults(w)
	r.streams.writeTable(w)
	r.writeMemory(w)
	for _, note := range r.notes {
		fmt.Fprintln(w, note)
	}
}
