// Command testreport reads what `go test -json` says on stdin, prints what go test prints, and at its end which
// tests were not run and why. It exits with 1 if a test failed.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// event is a line of go test -json; see `go doc test2json`.
type event struct {
	Action, Package, Test, Output, FailedBuild string
}

func main() {
	failed, err := report(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
	}
	if failed || err != nil {
		os.Exit(1)
	}
}

// report copies what matters of events to out, and says whether anything failed.
func report(in io.Reader, out io.Writer) (failed bool, err error) {
	type test struct{ pkg, name string }
	said := map[test][]string{}
	var skipped []string
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(out, lines.Text()) // of the go command itself
			continue
		}
		t := test{e.Package, e.Test}
		switch {
		case e.Action == "build-output", e.Action == "output" && e.Test == "" && e.Output != "PASS\n":
			fmt.Fprint(out, e.Output)
		case e.Action == "output" && !strings.HasPrefix(e.Output, "=== "):
			said[t] = append(said[t], e.Output)
		case e.Action == "fail" || e.Action == "build-fail":
			failed = true
			fmt.Fprint(out, strings.Join(said[t], ""))
			delete(said, t)
		case e.Action == "skip" && e.Test != "":
			skipped = append(skipped, fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason(said[t])))
			delete(said, t)
		case e.Action == "pass":
			delete(said, t)
		}
	}
	if len(skipped) > 0 {
		fmt.Fprintf(out, "\nNot run here, %d:\n  %s\n", len(skipped), strings.Join(skipped, "\n  "))
	}
	return failed, lines.Err()
}

// reason is what a test said before it was skipped, in one line.
func reason(said []string) string {
	var words []string
	for _, line := range said {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "--- ") {
			words = append(words, line)
		}
	}
	return strings.Join(words, " ")
}
