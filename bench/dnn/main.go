// Command dnn is this engine's contestant in tools/peers/bench_dnn.py: it opens an ONNX file and times passes.
//
// It prints the seconds from opening the file to the end of the first pass, and then answers lines: `pass` with the
// seconds that a pass takes, inputs set and outputs read, `gradient` with those of a pass that also computes the
// gradients of the first float input, `weights` and `biases` with those of one with
// the gradients of all weights, but those of depthwise convolutions, and biases, or of the biases alone, `calls`, if given -calls, with where the time of all passes went, `memory`
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
	"slices"
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
	batch := flag.Int("batch", 0, "frames of a pass (0: as many as the file says)")
	calls := flag.Bool("calls", false, "keep how long calls of the device take, for the line `calls`")
	flag.Parse()
	if err := runModel(*file, cpu.Config{Threads: *threads, ISA: *isa}, *batch, *calls); err != nil {
		fmt.Fprintln(os.Stderr, "bench/dnn:", err)
		os.Exit(1)
	}
}

func runModel(file string, config cpu.Config, batch int, calls bool) error {
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
	contestants := contestants{device: device, graph: m.Graph, batch: batch, ready: map[string]*contestant{}}
	c, err := contestants.get("pass")
	if err != nil {
		return err
	}
	if err := c.runPass(); err != nil {
		return err
	}
	fmt.Println(time.Since(begun).Seconds())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
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
		case "arenas":
			for _, of := range []string{"pass", "gradient"} {
				if c, err = contestants.get(of); err != nil {
					return err
				}
				fmt.Print(c.plan.ArenaBytes, " ")
			}
			fmt.Println()
			continue
		}
		if c, err = contestants.get(lines.Text()); err != nil {
			return err
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

// contestants are a network's passes: forward, and with gradients.
type contestants struct {
	device kernels.Networks
	graph  *graph.Graph
	batch  int
	ready  map[string]*contestant
}

// get prepares a pass where that was not done before.
func (all *contestants) get(what string) (c *contestant, err error) {
	if c = all.ready[what]; c != nil {
		return c, nil
	}
	g, err := all.prepareGraph(what)
	if err == nil {
		c, err = prepareContestant(all.device, g)
	}
	all.ready[what] = c
	return c, err
}

func (all *contestants) prepareGraph(what string) (*graph.Graph, error) {
	free := weightsOf(all.graph, what)
	g, err := all.graph.Free(free...)
	if err != nil {
		return nil, err
	}
	shapes := map[string][]int{}
	for _, v := range all.graph.Inputs {
		shapes[v.Name] = append([]int{}, v.Shape...)
		if all.batch > 0 {
			shapes[v.Name][0] = all.batch
		}
	}
	if g, err = specialize.Run(g, shapes); err != nil || what == "pass" {
		return g, err
	}
	request := gradient.Request{Wanted: free}
	for _, v := range g.Inputs {
		if v.Type == engine.FP32 && len(request.Wanted) == 0 {
			request.Wanted = []string{v.Name}
		}
	}
	for _, v := range g.Outputs {
		request.Outputs = append(request.Outputs, v.Name)
		if v.Type == engine.FP32 {
			request.Seeded = append(request.Seeded, v.Name)
		}
	}
	return gradient.NewGradient(g, request)
}

// weightsOf are the constants whose gradients a pass has.
func weightsOf(g *graph.Graph, what string) (names []string) {
	from := map[string]int{"weights": 1, "biases": 2}[what]
	for _, n := range g.Nodes {
		depthwise := n.Op == "Conv" && n.In[1].Rank > 1 && n.In[1].Shape[1] == 1
		if from == 0 || n.Op != "Conv" && n.Op != "Gemm" && n.Op != "MatMul" {
			continue
		}
		for _, v := range n.In[min(from, len(n.In)):] {
			if v.Const != nil && !(depthwise && v == n.In[1]) && !slices.Contains(names, v.Name) {
				names = append(names, v.Name)
			}
		}
	}
	return names
}

func prepareContestant(b kernels.Networks, special *graph.Graph) (*contestant, error) {
	p, err := plan.Build(special, plan.Options{Device: b})
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
