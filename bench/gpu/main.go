// Command gpu measures the first GPU and this engine on it: one part a call, so that a part that
// fails or runs out of time costs no other. tools/cuda_report.sh calls it for each part.
//
// Weights are random and made on the device; torch.py beside this file makes the same ones, and
// reads what the part prompts wrote with -results.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/kernels/cuda"
)

// device is a cuda.Device with a clock of its own and page-locked host memory. The real one and simt
// both are.
type device interface {
	cuda.Device
	Mark()
	Laps() ([]time.Duration, error)
	Pinned(bytes int) (memory []byte, free func(), err error)
}

// bench is a measurement in progress.
type bench struct {
	out     io.Writer
	device  *meter
	backend *cuda.Backend
	sizes
}

func newBench(out io.Writer, d device, s sizes) *bench {
	m := &meter{device: d}
	return &bench{out: out, device: m, backend: cuda.New(m), sizes: s}
}

// parts are what can be measured, in the order of the report.
var parts = []struct {
	name    string
	measure func(*bench) error
}{
	{"prompts", (*bench).prompts},
	{"suffixes", (*bench).suffixes},
	{"pause", (*bench).pause},
	{"chunks", (*bench).chunks},
	{"attention", (*bench).attention},
	{"products", (*bench).products},
	{"copies", (*bench).copies},
}

func main() {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	part := flag.String("part", names[0], "what to measure: "+strings.Join(names, ", "))
	model := flag.String("model", "8b", "the model's shape: 8b, 32b, 70b")
	results := flag.String("results", "", "file for the figures of prompts, as JSON")
	flag.Parse()
	runtime.LockOSThread() // a CUDA context belongs to a thread
	if err := run(os.Stdout, *part, *model, *results); err != nil {
		fmt.Fprintln(os.Stderr, "bench/gpu:", err)
		os.Exit(1)
	}
}

// run measures one part on the first GPU; without one it says so.
func run(out io.Writer, part, model, results string) error {
	at := slices.IndexFunc(parts, func(p struct {
		name    string
		measure func(*bench) error
	}) bool {
		return p.name == part
	})
	if at < 0 {
		return fmt.Errorf("no part %q; see -help", part)
	}
	sizes, ok := onGPU(model)
	if !ok {
		return fmt.Errorf("no model %q; see -help", model)
	}
	opened, err := cuda.Open(0, cuda.Options{Note: func(s string) { fmt.Fprintf(out, "%s\n\n", s) }})
	if errors.Is(err, cuda.ErrNoDevice) {
		fmt.Fprintf(out, "Not measured: %v.\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	sizes.results = results
	b := newBench(out, opened.(device), sizes)
	defer b.backend.Close()
	return parts[at].measure(b)
}
