package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// writeTableRow prints a line of a table; the first one of a table is its head.
func writeTableRow(w io.Writer, head bool, cells ...any) {
	var b strings.Builder
	for _, c := range cells {
		fmt.Fprintf(&b, "| %v ", c)
	}
	fmt.Fprintln(w, b.String()+"|")
	if head {
		fmt.Fprintln(w, strings.Repeat("|---", len(cells))+"|")
	}
}

// quantile is that of sorted times; zero without one.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)].Round(time.Millisecond / 10)
}

func (r *report) writeRequests(w io.Writer) {
	head := []any{"requests", "asked"}
	for _, name := range outcomeNames {
		head = append(head, name)
	}
	writeTableRow(w, true, append(head, "p50", "p99", "longest")...)
	var sum tally
	for _, k := range kinds {
		t := r.tallies[k.name]
		if t == nil {
			continue
		}
		sum.asked += t.asked
		sum.took = append(sum.took, t.took...)
		for o, n := range t.count {
			sum.count[o] += n
		}
		t.writeRow(w, k.name)
	}
	sum.writeRow(w, "all")
	fmt.Fprintln(w)
}

func (t *tally) writeRow(w io.Writer, name string) {
	slices.Sort(t.took)
	cells := []any{name, t.asked}
	for _, n := range t.count {
		cells = append(cells, n)
	}
	writeTableRow(w, false, append(cells, quantile(t.took, .5), quantile(t.took, .99), quantile(t.took, 1))...)
}

func (r *report) writeFaults(w io.Writer) {
	if len(r.faults) == 0 {
		return
	}
	writeTableRow(w, true, "fault", "times", "successor after (median)", "longest", "next answer after (median)", "longest")
	for _, role := range strings.Split(r.config.roles, ",") {
		for _, signal := range slices.Compact(slices.Sorted(strings.SplitSeq(r.config.signals, ","))) {
			var over, quiet []time.Duration
			for _, f := range r.faults {
				if f.role == role && f.signal == signal {
					over, quiet = append(over, f.over.Sub(f.at)), append(quiet, f.quiet)
				}
			}
			if len(over) == 0 {
				continue
			}
			slices.Sort(over)
			slices.Sort(quiet)
			writeTableRow(w, false, "SIG"+signal+" to "+role, len(over), quantile(over, .5), quantile(over, 1), quantile(quiet, .5), quantile(quiet, 1))
		}
	}
	fmt.Fprintln(w)
}

// writeMemory prints the longest life under each name.
func (r *report) writeMemory(w io.Writer) {
	writeTableRow(w, true, "process", "lives", "longest life", "memory when warm", "in the end", "most")
	longest, lives := map[string]*life{}, map[string]int{}
	for _, l := range r.memory.lives {
		lives[l.name]++
		if have := longest[l.name]; have == nil || len(l.samples) > len(have.samples) {
			longest[l.name] = l
		}
	}
	names := make([]string, 0, len(longest))
	for name := range longest {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		l := longest[name]
		warm, last, judged := l.memoryGrowth(r.memory.every)
		cells := []any{"-", "-"}
		if judged {
			cells = []any{formatMiB(warm), formatMiB(last)}
		}
		lived := (time.Duration(len(l.samples)) * r.memory.every).Round(time.Second)
		writeTableRow(w, false, append(append([]any{name, lives[name], lived}, cells...), formatMiB(slices.Max(l.samples)))...)
	}
	fmt.Fprintln(w)
}
