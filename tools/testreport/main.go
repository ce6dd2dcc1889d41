// Command testreport runs commands one after the other, whatever becomes of each, prints what `go test -json` says in them as go test
// prints it, and ends with one list of why tests were not run, with how many and where, and one of what failed. It exits with 1 if
// anything did.
//
//	testreport 'go vet ./...' 'go test -json ./...'
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// event is a line of go test -json; see `go doc test2json`.
type event struct {
	Action, Package, ImportPath, Test, Output string
}

func main() {
	r := report{out: os.Stdout}
	for _, command := range os.Args[1:] {
		fmt.Println(command)
		r.run(command)
	}
	if !r.printLists() {
		os.Exit(1)
	}
}

// report is what came of commands so far.
type report struct {
	out     io.Writer
	skipped []skip
	failed  []string
}

// skip is a test that was not run.
type skip struct{ pkg, test, why string }

// run runs a command of the shell and reads its events.
func (r *report) run(command string) {
	c := exec.Command("sh", "-c", command)
	c.Stderr = r.out
	events, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	before := len(r.failed)
	if err == nil {
		err = errors.Join(r.read(events), c.Wait())
	}
	if err != nil && len(r.failed) == before { // no test failed, and no package
		r.failed = append(r.failed, fmt.Sprintf("%s: %v", command, err))
	}
}

// read copies what matters of events to the report's output, and keeps what was skipped and what failed.
func (r *report) read(events io.Reader) error {
	type test struct{ pkg, name string }
	said, failing := map[test][]string{}, map[string]bool{} // packages with a test that failed
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(r.out, lines.Text()) // of the go command itself, or of another
			continue
		}
		t := test{e.Package, e.Test}
		switch {
		case e.Action == "build-output", e.Action == "output" && e.Test == "" && e.Output != "PASS\n":
			fmt.Fprint(r.out, e.Output)
		case e.Action == "output" && !strings.HasPrefix(e.Output, "=== "):
			said[t] = append(said[t], e.Output)
		case e.Action == "build-fail":
			r.failed = append(r.failed, e.ImportPath+": it does not build")
			failing[strings.Fields(e.ImportPath)[0]] = true
		case e.Action == "fail":
			fmt.Fprint(r.out, strings.Join(said[t], ""))
			delete(said, t)
			if e.Test != "" || !failing[e.Package] {
				r.failed = append(r.failed, strings.TrimSpace(e.Package+" "+e.Test))
			}
			failing[e.Package] = true
		case e.Action == "skip" && e.Test != "":
			r.skipped = append(r.skipped, skip{e.Package, e.Test, skipReason(said[t])})
			delete(said, t)
		case e.Action == "pass":
			delete(said, t)
		}
	}
	_, _ = io.Copy(io.Discard, events) // behind a line that is too long, so that the command can end
	return lines.Err()
}

// printLists prints the lists, and says whether nothing failed.
func (r *report) printLists() bool {
	if len(r.skipped) > 0 {
		fmt.Fprintf(r.out, "\nNot run here, %d:\n  %s\n", len(r.skipped), strings.Join(condense(r.skipped), "\n  "))
	}
	if len(r.failed) > 0 {
		fmt.Fprintf(r.out, "\nFailed, %d:\n  %s\n", len(r.failed), strings.Join(r.failed, "\n  "))
	}
	return len(r.failed) == 0
}

// Bounds on the list of what was not run.
const (
	mostReasons = 40
	mostPlaces  = 3 // of a reason
)

// condense makes a line of each reason: how many tests it kept from being run, and where; those of most tests come first.
func condense(skipped []skip) (lines []string) {
	count, places := map[string]int{}, map[string][]string{}
	for _, s := range skipped {
		test, _, _ := strings.Cut(s.test, "/") // parts of a test are counted with it
		count[s.why]++
		if place := s.pkg + " " + test; !slices.Contains(places[s.why], place) {
			places[s.why] = append(places[s.why], place)
		}
	}
	reasons := slices.SortedFunc(maps.Keys(count), func(a, b string) int { return cmp.Or(count[b]-count[a], strings.Compare(a, b)) })
	left := len(skipped)
	for _, why := range reasons[:min(len(reasons), mostReasons)] {
		at := places[why]
		more := ""
		if n := len(at) - mostPlaces; n > 0 {
			at, more = at[:mostPlaces], fmt.Sprintf(" and %d more", n)
		}
		lines = append(lines, fmt.Sprintf("%d, %s (%s%s)", count[why], why, strings.Join(at, ", "), more))
		left -= count[why]
	}
	if left > 0 {
		lines = append(lines, fmt.Sprintf("%d, for %d other reasons; go test -v PACKAGE shows them", left, len(reasons)-mostReasons))
	}
	return lines
}

// position is where in a file a test said something.
var position = regexp.MustCompile(`^\S+\.go:[0-9]+: `)

// skipReason is what a test said before it was skipped, in one line.
func skipReason(said []string) string {
	var words []string
	for _, line := range said {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "--- ") {
			words = append(words, position.ReplaceAllString(line, ""))
		}
	}
	return strings.Join(words, " ")
}
