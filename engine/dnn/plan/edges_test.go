package plan_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/golden"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/engine/dnn/ops"
	"github.com/prefillonly/prefillonly/engine/dnn/plan"
	"github.com/prefillonly/prefillonly/engine/dnn/specialize"
	"github.com/prefillonly/prefillonly/kernels/cuda"
	"github.com/prefillonly/prefillonly/kernels/cuda/simt"
)

// edge is a case of tools/golden/onnx_edges.py.
type edge struct {
	Name    string
	Model   []byte
	Inputs  [][]byte
	Outputs []struct {
		Type  int64
		Shape []int
		Data  []byte
	}
}

func edges(t *testing.T) (list []edge) {
	file, err := os.Open("../golden/testdata/edges.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	all := struct{ Cases *[]edge }{&list}
	if err := json.NewDecoder(plain).Decode(&all); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestEdges holds operations on NaN, infinities, zeros, numbers below the normal range, overflow and the limits of integers
// to what ONNX Runtime computes: in plain Go, and on each device, of an input and of a constant.
func TestEdges(t *testing.T) {
	gpu := cuda.New(simt.New())
	defer gpu.Close()
	list, seen := append(backends(t), gpu), map[string]bool{}
	for _, c := range edges(t) {
		m, err := onnx.Parse(c.Model)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		if op, ok := ops.Lookup(m.Graph.Nodes[0].Op); ok && !slices.Contains(op.Types, m.Graph.Inputs[0].Type) {
			continue
		}
		for _, n := range m.Graph.Nodes {
			seen[n.Op] = true
		}
		inputs, shapes, want := map[string]*graph.Tensor{}, map[string][]int{}, []*graph.Tensor(nil)
		for i, v := range m.Graph.Inputs {
			inputs[v.Name] = &graph.Tensor{Type: v.Type, Shape: v.Shape, Data: c.Inputs[i]}
			shapes[v.Name] = v.Shape
		}
		for _, o := range c.Outputs {
			typ, _ := graph.ElementType(o.Type)
			want = append(want, &graph.Tensor{Type: typ, Shape: o.Shape, Data: o.Data})
		}
		compare := func(how string, got []*graph.Tensor, err error) {
			for i := 0; err == nil && i < len(want); i++ {
				err = alike(got[i], want[i], c.Name)
			}
			if err != nil && different[c.Name] == "" && !(wider[c.Name] && (how == "folded" || how == "ref")) {
				t.Errorf("%s, %s: %v", c.Name, how, err)
			}
		}
		special, err := specialize.Run(m.Graph, shapes)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		got, err := folded(m.Graph, inputs)
		compare("folded", got, err)
		for _, b := range list {
			p, err := bind(b, special, plan.Options{})
			if err == nil {
				got, err = p.pass(inputs)
			}
			compare(b.Name(), got, err)
		}
	}
	for _, name := range ops.Names() {
		if !seen[name] && !strings.HasPrefix(name, ".") && !elsewhere[name] {
			t.Errorf("%s is computed on no numbers at the edges", name)
		}
	}
}

// folded is what becomes of a graph whose inputs are constants.
func folded(g *graph.Graph, inputs map[string]*graph.Tensor) ([]*graph.Tensor, error) {
	g, _ = g.Clone()
	for _, v := range g.Inputs {
		v.Const = inputs[v.Name]
	}
	g.Inputs = nil
	g, err := specialize.Run(g, nil)
	if err != nil {
		return nil, err
	}
	for _, n := range g.Nodes {
		if n.Op != "Identity" {
			return nil, fmt.Errorf("%v is not folded", n)
		}
	}
	return golden.Evaluate(g, nil)
}

// steps are how far numbers of a type may be off, as a part of them, and what counts as 0 beside.
var steps = map[engine.DType]struct{ part, zero float64 }{
	engine.FP64: {1e-5, 1e-37}, engine.FP32: {1e-5, 1e-37}, engine.FP16: {1.0 / 512, 1e-7}, engine.BF16: {1.0 / 64, 1e-37},
}

// alike compares every element: NaN, infinities and integers have to be the same, and all of what only moves or is cast.
func alike(got, want *graph.Tensor, name string) error {
	if got.String() != want.String() {
		return fmt.Errorf("%v, not %v", got, want)
	}
	if !graph.Floating(want.Type) {
		x, y := got.Ints(), want.Ints()
		for i := range x {
			if x[i] != y[i] {
				return fmt.Errorf("element %d is %d, not %d", i, x[i], y[i])
			}
		}
		return nil
	}
	x, y, off := got.Floats(), want.Floats(), steps[want.Type]
	cast := strings.HasPrefix(name, "Cast")
	switch {
	case cast:
		off.part, off.zero = 0, 0
	case strings.HasPrefix(name, "LogSoftmax"), strings.HasPrefix(name, "BatchNormalization"): // differences of what is near 1
		off.zero = 1e-6
	}
	for i := range x {
		switch d := math.Abs(x[i] - y[i]); {
		case x[i] == y[i] && !(cast && math.Signbit(x[i]) != math.Signbit(y[i])), x[i] != x[i] && y[i] != y[i], d <= off.zero, d <= off.part*math.Abs(y[i]) && !math.IsInf(y[i], 0):
		default:
			return fmt.Errorf("element %d is %g, not %g", i, x[i], y[i])
		}
	}
	return nil
}

// elsewhere are operations that have no case here, since they compute sums, samples or places of many elements, which other
// tests hold to ONNX Runtime and to ONNX's own cases.
var elsewhere = map[string]bool{
	"AffineGrid": true, "CenterCropPad": true, "Col2Im": true, "Constant": true, "ConstantOfShape": true, "ConvInteger": true, "ConvTranspose": true,
	"DeformConv": true, "Dropout": true, "DynamicQuantizeLinear": true, "Einsum": true, "EyeLike": true, "GRU": true, "GlobalLpPool": true, "GridSample": true,
	"GroupNormalization": true, "If": true, "InstanceNormalization": true, "LRN": true, "LSTM": true, "LayerNormalization": true, "LpNormalization": true,
	"LpPool": true, "MatMulInteger": true, "MaxUnpool": true, "MeanVarianceNormalization": true, "NonMaxSuppression": true, "OneHot": true,
	"QLinearConv": true, "QLinearMatMul": true, "RMSNormalization": true, "RNN": true, "Range": true, "Resize": true, "ReverseSequence": true,
	"RoiAlign": true, "Shape": true, "Size": true, "Swish": true, "Unique": true,
}

// different are the cases in which ONNX Runtime differs from itself or rounds on the way, and why.
var different = map[string]string{
	"Sign FLOAT16":  "the sign of NaN is 0 there, and NaN in FP32",
	"Sign BFLOAT16": "the sign of NaN is 0 there, and NaN in FP32",
	"Shrink INT32":  "computed in float32, which has no such integers",
	"Shrink UINT32": "computed in float32, which has no such integers",
	"Shrink UINT64": "computed in float32, which has no such integers",
	"Pow INT32":     "what overflows is undefined",
}

// wider are the cases that plain Go computes in float64 without the overflow on the way that float32 has.
var wider = map[string]bool{"ReduceL2 FLOAT": true, "AveragePool FLOAT": true}
