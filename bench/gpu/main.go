// Command gpu measures the first GPU and this engine on it: one part a call, so that a part that
// fails or runs out of time costs no other. tools/measure/cuda_report.sh calls it for each part.
//
// Weights are random and made on the device; tools/peers/cuda_torch.py makes the same ones, and
// reads what the part prompts wrote with -results.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/driver"
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
	{"prompts", (*bench).measurePrompts},
	{"suffixes", (*bench).compareSuffixes},
	{"pause", (*bench).measurePause},
	{"chunks", (*bench).measureChunkSizes},
	{"attention", (*bench).measureAttention},
	{"products", (*bench).measureProducts},
	{"copies", (*bench).measureCopies},
}

// request is what to measure.
type request struct {
	part, model, weights, attention, results string
}

func main() {
	var r request
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	flag.StringVar(&r.part, "part", names[0], "what to measure: "+strings.Join(names, ", "))
	flag.StringVar(&r.model, "model", "8b", "the model's shape: 8b, 32b, 70b")
	flag.StringVar(&r.weights, "weights", "bf16", "the type of weights and activations: bf16, fp8, int8")
	flag.StringVar(&r.attention, "attention", "flashinfer", "what computes attention: flashinfer, cudnn")
	flag.StringVar(&r.results, "results", "", "file for the figures of prompts, as JSON")
	flag.Parse()
	runtime.LockOSThread() // a CUDA context belongs to a thread
	if err := runPart(os.Stdout, r); err != nil {
		fmt.Fprintln(os.Stderr, "bench/gpu:", err)
		os.Exit(1)
	}
}

// runPart measures one part on the first GPU. Without one, or without the cuDNN that is asked for, it says
// so.
func runPart(out io.Writer, r request) error {
	at := -1
	for i, p := range parts {
		if p.name == r.part {
			at = i
		}
	}
	if at < 0 {
		return fmt.Errorf("unknown part %q: see -help", r.part)
	}
	sizes, ok := onGPU(r.model)
	if !ok {
		return fmt.Errorf("unknown model %q: see -help", r.model)
	}
	if _, ok := weightTypes[r.weights]; !ok {
		return fmt.Errorf("unknown type of weights %q: see -help", r.weights)
	}
	opened, err := driver.Open(0, driver.Options{AttentionBackend: r.attention, Note: func(s string) { fmt.Fprintf(out, "%s\n\n", s) }})
	if errors.Is(err, driver.ErrNoDevice) || err != nil && r.attention == "cudnn" {
		fmt.Fprintf(out, "Not measured: %v.\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	sizes.results, sizes.model.Weights = r.results, r.weights
	b := newBench(out, opened.(device), sizes)
	defer b.backend.Close()
	return parts[at].measure(b)
}
