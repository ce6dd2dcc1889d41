// Command dnn is this engine's contestant in tools/peers/bench_dnn.py: it opens an ONNX file and times passes.
//
// It prints the seconds from opening the file to the end of the first pass, and then answers lines: `pass` with the
// seconds that a pass takes, inputs set and outputs read, `gradient` with those of a pass that also computes the
// gradients of the first float input, `calls`, if given -calls, with where the time of all passes went, `memory`
// with the most memory that the process has held, in bytes, and `arenas` with what a pass and one with gradients compute in.
package main

import (
	"bufio"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/gradient"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/engine/dnn/plan"
	"github.com/prefillonly/prefillonly/engine/dnn/specialize"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
)

func main() {
	file := flag.String("model", "", "ONNX file")
	threads := flag.Int("threads", 0, "threads that compute (0: one a core)")
	isa := flag.String("isa", "", fmt.Sprintf("one of %v (empty: the best)", cpu.ISAs))
	calls := flag.Bool("calls", false, "keep how long calls of the device take, for the line `calls`")
	flag.Parse()
	if err := runModel(*file, cpu.Config{Threads: *threads, ISA: *isa}, *calls); err != nil {
		fmt.Fprintln(os.Stderr, "bench/dnn:", err)
		os.Exit(1)
	}
}

func runModel(file string, config cpu.Config, calls bool) error {
	begun := time.Now()
	b, err := cpu.New(config)
	if err != nil {
		return err
	}
	defer b.Close()
	m, err := onnx.Open(file)
	if err != nil {
		return err
	}
	defer m.Close()
	clock := &timed{Networks: b, spent: map[string]*spent{}}
	var device kernels.Networks = b
	if calls {
		device = clock
	}
	forward, err := prepareContestant(device, m.Graph)
	if err != nil {
		return err
	}
	if err := forward.runPass(); err != nil {
		return err
	}
	fmt.Println(time.Since(begun).Seconds())
	var backward *contestant
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		c := forward
		switch lines.Text() {
		case "calls":
			fmt.Print(clock.reportKernelTimes())
			continue
		case "memory":
			bytes, err := peakMemory()
			if err != nil {
				return err
			}
			fmt.Println(bytes)
			continue
		case "gradient", "arenas":
			if backward == nil {
				if backward, err = prepareGradient(device, m.Graph); err != nil {
					return err
				}
			}
			if lines.Text() == "arenas" {
				fmt.Println(forward.plan.ArenaBytes, backward.plan.ArenaBytes)
				continue
			}
			c = backward
		}
		start := time.Now()
		if err := c.runPass(); err != nil {
			return err
		}
		fmt.Println(time.Since(start).Seconds())
	}
	return nil
}

// contestant is a network that is ready.
type contestant struct {
	run     *plan.Run
	plan    *plan.Plan
	inputs  map[string][]byte
	outputs [][]byte
}

// prepareGradient is prepare for the network and the gradients of its first float input, of all float outputs.
func prepareGradient(b kernels.Networks, g *graph.Graph) (*contestant, error) {
	special, err := specialize.Run(g, nil)
	if err != nil {
		return nil, err
	}
	var request gradient.Request
	for _, v := range special.Inputs {
		if v.Type == engine.FP32 && len(request.Wanted) == 0 {
			request.Wanted = []string{v.Name}
		}
	}
	for _, v := range special.Outputs {
		request.Outputs = append(request.Outputs, v.Name)
		if v.Type == engine.FP32 {
			request.Seeded = append(request.Seeded, v.Name)
		}
	}
	with, err := gradient.NewGradient(special, request)
	if err != nil {
		return nil, err
	}
	return prepareContestant(b, with)
}

func prepareContestant(b kernels.Networks, g *graph.Graph) (*contestant, error) {
	special, err := specialize.Run(g, nil)
	if err != nil {
		return nil, err
	}
	p, err := plan.Build(special, plan.Options{Networks: true})
	if err != nil {
		return nil, err
	}
	arena, err := b.Alloc(p.ArenaBytes)
	if err != nil {
		return nil, err
	}
	var held []kernels.Held
	for i := range p.Weights {
		var constants []*graph.Tensor
		for _, v := range p.Weights[i].Constants {
			constants = append(constants, v.Const)
		}
		h, err := p.Weights[i].Make(b, constants)
		if err != nil {
			return nil, err
		}
		held = append(held, h)
	}
	c := &contestant{plan: p, inputs: map[string][]byte{}, outputs: make([][]byte, len(p.Outputs))}
	if c.run, err = p.Bind(b, arena, 0, held); err != nil {
		return nil, err
	}
	for _, v := range p.Inputs {
		c.inputs[v.Name] = randomInput(v)
	}
	return c, nil
}

// randomInput is an input's elements: floats from 0 to 1, and other numbers 0.
func randomInput(v *graph.Value) []byte {
	data := make([]byte, graph.Elements(v.Shape)*v.Type.Size())
	if v.Type == engine.FP32 {
		r := rand.New(rand.NewPCG(1, 1))
		for i := 0; i < len(data); i += 4 {
			binary.LittleEndian.PutUint32(data[i:], math.Float32bits(r.Float32()))
		}
	}
	return data
}

func (c *contestant) runPass() error {
	c.run.Start()
	for name, data := range c.inputs {
		if err := c.run.SetInput(name, data); err != nil {
			return err
		}
	}
	for {
		done, err := c.run.Step()
		if err != nil {
			return err
		}
		if done {
			break
		}
	}
	for i, v := range c.plan.Outputs {
		if n := graph.Elements(c.run.OutputShape(i)) * v.Type.Size(); len(c.outputs[i]) != n {
			c.outputs[i] = make([]byte, n)
		}
		if err := c.run.ReadOutput(i, c.outputs[i]); err != nil {
			return err
		}
	}
	return nil
}

func peakMemory() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		var kilobytes int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kilobytes); n == 1 {
			return kilobytes << 10, nil
		}
	}
	return 0, fmt.Errorf("/proc/self/status has no VmHWM")
}
