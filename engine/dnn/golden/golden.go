// Package golden has what ONNX Runtime computes of networks, for tests of whole ones. tools/golden/onnx_golden.py wrote it.
package golden

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops"
)

//go:embed testdata
var files embed.FS

// Tolerance is how far an output may be from ONNX Runtime's, in parts of the output's range, or of its elements if they are
// equal.
const Tolerance = 1e-3

// Where the elements come from that are compared.
const samplePlaces = 2_000_000

// Case is a model with inputs, and samples of its outputs.
type Case struct {
	Model   string // the file's name without .onnx
	Inputs  []Input
	Outputs []Output

	dir string // of the file; "": that of the data for tests
}

// Input describes a tensor: that of Value, or numbers from Low to High.
type Input struct {
	Name      string
	Shape     []int
	Low, High float64
	First     int // of Uniform
	Value     *int64
}

// Output is some elements of a tensor, and the least and greatest of all.
type Output struct {
	Name            string
	Shape           []int
	Least, Greatest float64
	Samples         []float64
}

// Old is a model of one node of an old opset, and its output.
type Old struct {
	Name   string
	Model  []byte
	Input  Input
	Shape  []int
	Values []float64
}

// Cases are those of real models.
func Cases(t testing.TB) []Case { return readCases[Case](t, "models.json") }

// Architectures are the cases that tools/golden/onnx_golden.py --architectures made in build/onnx_networks; none if it did not.
func Architectures(t testing.TB) (list []Case) {
	t.Helper()
	dir := filepath.Join(repositoryRoot(), "build", "onnx_networks")
	raw, err := os.ReadFile(filepath.Join(dir, "models.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &list)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		list[i].dir = dir
	}
	return list
}

// repositoryRoot is the repository's.
func repositoryRoot() string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "..", "..", "..")
}

// Olds are the models of old opsets.
func Olds(t testing.TB) []Old { return readCases[Old](t, "opsets.json") }

func readCases[T any](t testing.TB, name string) (list []T) {
	t.Helper()
	raw, err := files.ReadFile("testdata/" + name)
	if err == nil {
		err = json.Unmarshal(raw, &list)
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Data is the directory of data for tests: ../shared/data beside the repository, or what PREFILLONLY_DATA names.
// Without it the test is skipped.
func Data(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("PREFILLONLY_DATA")
	if dir == "" {
		dir = filepath.Join(repositoryRoot(), "..", "shared", "data")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no data for tests at %s; PREFILLONLY_DATA may name another directory", dir)
	}
	return dir
}

// Path is where the model's file is, or the test is skipped.
func (c *Case) Path(t testing.TB) string {
	t.Helper()
	if c.dir != "" {
		return filepath.Join(c.dir, c.Model+".onnx")
	}
	return filepath.Join(Data(t), "models", c.Model+".onnx")
}

// Name says what is special about a case.
func (c *Case) Name() string { return fmt.Sprintf("%s %v", c.Model, c.Inputs[0].Shape) }

// Shapes are those of the inputs by name.
func (c *Case) Shapes() map[string][]int {
	shapes := map[string][]int{}
	for _, in := range c.Inputs {
		shapes[in.Name] = in.Shape
	}
	return shapes
}

// Tensors are the inputs by name.
func (c *Case) Tensors() map[string]*graph.Tensor {
	tensors := map[string]*graph.Tensor{}
	for _, in := range c.Inputs {
		tensors[in.Name] = in.Tensor()
	}
	return tensors
}

// Tensor is what an input describes.
func (in *Input) Tensor() *graph.Tensor {
	if in.Value != nil {
		return graph.FromInts(engine.Int64, in.Shape, []int64{*in.Value})
	}
	x := Uniform(in.First, graph.Elements(in.Shape))
	for i, u := range x {
		x[i] = in.Low + (in.High-in.Low)*u
	}
	return graph.FromFloats(engine.FP32, in.Shape, x)
}

// Uniform is numbers in [0, 1): a SplitMix64 generator's from the first-th on.
func Uniform(first, count int) []float64 {
	x := make([]float64, count)
	for i := range x {
		z := uint64(first+i+1) * 0x9E3779B97F4A7C15
		z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		x[i] = float64((z^z>>31)>>11) / (1 << 53)
	}
	return x
}

// Compare says how an output that was computed differs by more than the tolerance.
func (o *Output) Compare(got *graph.Tensor) error {
	if !slices.Equal(got.Shape, o.Shape) {
		return fmt.Errorf("output %q has the shape %v, and ONNX Runtime's %v", o.Name, got.Shape, o.Shape)
	}
	x := got.Floats()
	limit := Tolerance * (o.Greatest - o.Least)
	if o.Least == o.Greatest {
		limit = Tolerance * math.Abs(o.Greatest)
	}
	for j, u := range Uniform(samplePlaces, len(o.Samples)) {
		i := int(u * float64(len(x)))
		if d := math.Abs(x[i] - o.Samples[j]); !(d <= limit) {
			return fmt.Errorf("output %q: element %d is %g, and ONNX Runtime's %g, of a range from %g to %g", o.Name, i, x[i], o.Samples[j], o.Least, o.Greatest)
		}
	}
	if d := math.Max(math.Abs(slices.Min(x)-o.Least), math.Abs(slices.Max(x)-o.Greatest)); !(d <= limit) {
		return fmt.Errorf("output %q is from %g to %g, and ONNX Runtime's from %g to %g", o.Name, slices.Min(x), slices.Max(x), o.Least, o.Greatest)
	}
	return nil
}

// Evaluate computes a graph's outputs of inputs by name, node by node, in plain Go.
func Evaluate(g *graph.Graph, inputs map[string]*graph.Tensor) ([]*graph.Tensor, error) {
	e := &evaluation{values: map[*graph.Value]*graph.Tensor{}, last: map[*graph.Value]int{}}
	for _, v := range g.Inputs {
		if e.values[v] = inputs[v.Name]; e.values[v] == nil {
			return nil, fmt.Errorf("input %q is not given", v.Name)
		}
	}
	for i, n := range g.Nodes {
		for _, v := range n.Reads() {
			e.last[v] = i
		}
	}
	for _, v := range g.Outputs {
		e.last[v] = len(g.Nodes)
	}
	for i, n := range g.Nodes {
		if err := e.evaluateNode(n, i); err != nil {
			return nil, err
		}
	}
	return e.valueTensors(g.Outputs), nil
}

// evaluation is the values that later nodes read: large models have many.
type evaluation struct {
	values map[*graph.Value]*graph.Tensor
	last   map[*graph.Value]int // the node that reads a value last
}

func (e *evaluation) evaluateNode(n *graph.Node, place int) error {
	op, ok := ops.Lookup(n.Op)
	if !ok {
		return fmt.Errorf("%v: unknown operation", n)
	}
	reads := n.In
	if len(n.Subgraphs()) > 0 {
		reads = n.Reads()
	}
	out, err := op.Eval(n, e.valueTensors(reads))
	if err != nil {
		return err
	}
	for j, v := range n.Out {
		if v != nil {
			e.values[v] = out[j]
		}
	}
	for _, v := range n.Reads() {
		if e.last[v] == place {
			delete(e.values, v)
		}
	}
	return nil
}

func (e *evaluation) valueTensors(vs []*graph.Value) []*graph.Tensor {
	out := make([]*graph.Tensor, len(vs))
	for i, v := range vs {
		switch {
		case v == nil:
		case v.Const != nil:
			out[i] = v.Const
		default:
			out[i] = e.values[v]
		}
	}
	return out
}
