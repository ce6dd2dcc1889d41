package ops_test

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/dnntest"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/engine/dnn/ops"
)

const (
	root     = "../../.."
	document = root + "/docs/onnx.md"
)

var update = flag.Bool("update", false, "write docs/onnx.md")

// wrong is an error that is no refusal: a result that differs from what it should be.
type wrong struct{ error }

// TestONNX runs ONNX's own tests. Each passes, or is refused as docs/onnx.md tells.
func TestONNX(t *testing.T) {
	cases := dnntest.Cases(t, root)
	d := &table{rows: map[string]*row{}, missing: map[string]int{}}
	for _, name := range ops.Names() {
		if name[0] != '.' {
			d.rows[name] = &row{reasons: map[string]int{}}
		}
	}
	passed := 0
	for _, c := range cases {
		names, err := c.Ops()
		if err != nil {
			t.Fatal(err)
		}
		err = run(c)
		if w := (wrong{}); errors.As(err, &w) {
			t.Errorf("%s: %v", c.Name, err)
		}
		if err == nil {
			passed++
		}
		d.add(names, err)
	}
	for _, r := range refusals {
		d.refuse(t, r)
	}
	t.Logf("%d of %d tests pass, and the others are refused", passed, len(cases))
	if *update {
		if err := os.WriteFile(document, []byte(d.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(document); err != nil || string(have) != d.String() {
		t.Errorf("%s is not what the tests tell: go test ./engine/dnn/ops -run TestONNX -update (%v)", document, err)
	}
}

func run(c dnntest.Case) error {
	m, err := c.Open()
	if err != nil {
		return err
	}
	defer m.Close()
	for _, n := range m.Graph.Nodes {
		op, ok := ops.Lookup(n.Op)
		if !ok {
			return fmt.Errorf("%v: unknown operation", n)
		}
		if err := op.Infer(n); err != nil {
			return err
		}
	}
	sets, err := c.Sets(m)
	if err != nil {
		return err
	}
	for i, s := range sets {
		if err := check(m, s); err != nil {
			return fmt.Errorf("set %d: %w", i, err)
		}
	}
	return nil
}

// check computes a model node by node.
func check(m *onnx.Model, s dnntest.Set) error {
	values := map[*graph.Value]*graph.Tensor{}
	tensor := func(v *graph.Value) *graph.Tensor {
		switch {
		case v == nil:
			return nil
		case v.Const != nil:
			return v.Const
		}
		return values[v]
	}
	for i, v := range m.Graph.Inputs {
		values[v] = s.In[i]
	}
	for _, n := range m.Graph.Nodes {
		reads := n.In
		if len(n.Subgraphs()) > 0 {
			reads = n.Reads()
		}
		var in []*graph.Tensor
		for _, v := range reads {
			in = append(in, tensor(v))
		}
		op, _ := ops.Lookup(n.Op)
		out, err := op.Eval(n, in)
		if err != nil {
			return err
		}
		for i, v := range n.Out {
			if v == nil {
				continue
			}
			values[v] = out[i]
			if err := inferred(v, out[i]); err != nil {
				return wrong{fmt.Errorf("%v: output %d: %w", n, i, err)}
			}
		}
	}
	for i, v := range m.Graph.Outputs {
		if err := near(tensor(v), s.Out[i]); err != nil {
			return wrong{fmt.Errorf("output %d: %w", i, err)}
		}
	}
	return nil
}

// near compares as ONNX's own runner of these tests does.
func near(got, want *graph.Tensor) error {
	if got.String() != want.String() {
		return fmt.Errorf("%v, not %v", got, want)
	}
	x, y := got.Floats(), want.Floats()
	for i := range x {
		if d := math.Abs(x[i] - y[i]); !(d <= 1e-7+1e-3*math.Abs(y[i])) && x[i] != y[i] && !(x[i] != x[i] && y[i] != y[i]) {
			return fmt.Errorf("element %d is %g, not %g", i, x[i], y[i])
		}
	}
	return nil
}

// table is docs/onnx.md.
type table struct {
	rows    map[string]*row
	missing map[string]int // tests of operations that there are not
}

type row struct {
	passed  int
	reasons map[string]int // why tests are refused, and how many
}

func (d *table) add(names []string, err error) {
	missing := false
	for _, name := range names {
		if d.rows[name] == nil && err != nil {
			d.missing[name]++
			missing = true
		}
	}
	if missing {
		return
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		switch r := d.rows[name]; {
		case r == nil:
		case err == nil:
			r.passed++
		case len(names) == 1:
			r.reasons[reason(err)]++
		}
	}
}

var particular = regexp.MustCompile(`^(.*\.(onnx|pb): )?(.*? node (that computes )?"[^"]*": )?((input|output|initializer) "[^"]*":? )?`)

var small = regexp.MustCompile(`(invalid attribute to: )?element type (FLOAT[48].*|U?INT[24]|1[789]|2[0-6]) is not supported`)

// reason is an error without what is of one test alone.
func reason(err error) string {
	return small.ReplaceAllString(particular.ReplaceAllString(err.Error(), ""), "8-bit floats, and elements of less than 8 bits")
}

// refusal is a node that is refused although ONNX's tests have none like it.
type refusal struct {
	op    string
	attrs graph.Attrs
	in    []*graph.Tensor
}

func fp(shape ...int) *graph.Tensor { return graph.NewTensor(engine.FP32, shape...) }

var refusals = []refusal{
	{"Conv", nil, []*graph.Tensor{fp(1, 1, 2, 2, 2, 2), fp(1, 1, 1, 1, 1, 1)}},
	{"MaxPool", graph.Attrs{"kernel_shape": []int64{1, 1, 1, 1}}, []*graph.Tensor{fp(1, 1, 2, 2, 2, 2)}},
	{"GridSample", graph.Attrs{"mode": "cubic"}, []*graph.Tensor{fp(1, 1, 2, 2, 2), fp(1, 2, 2, 2, 3)}},
	{"Resize", graph.Attrs{"antialias": int64(1), "coordinate_transformation_mode": "tf_crop_and_resize"}, []*graph.Tensor{fp(1)}},
	{"BatchNormalization", graph.Attrs{"training_mode": int64(1)}, []*graph.Tensor{fp(1, 1), fp(1), fp(1), fp(1), fp(1)}},
	{"ReduceMax", nil, []*graph.Tensor{graph.NewTensor(engine.Int32, 0)}},
	{"LSTM", graph.Attrs{"activations": []string{"Sigmoid", "Selu", "Tanh"}}, []*graph.Tensor{fp(1, 1, 1), fp(1, 4, 1), fp(1, 4, 1)}},
	{"GRU", graph.Attrs{"activations": []string{"Sigmoid", "Affine"}}, []*graph.Tensor{fp(1, 1, 1), fp(1, 3, 1), fp(1, 3, 1)}},
	{"Constant", graph.Attrs{"value_string": "a"}, nil},
	{"Mod", nil, []*graph.Tensor{fp(1), fp(1)}},
}

func (d *table) refuse(t *testing.T, r refusal) {
	op, _ := ops.Lookup(r.op)
	n := &graph.Node{Op: r.op, Name: "n", Attrs: r.attrs, Out: []*graph.Value{graph.NewValue("y")}}
	if _, err := op.Eval(n, r.in); err == nil {
		t.Errorf("%s of %v with %v is not refused", r.op, r.in, r.attrs)
	} else {
		d.rows[r.op].reasons[reason(err)] += 0
	}
}

const head = `# ONNX operations

Networks of opsets 7 to 25 are read. Whatever the opset, operations mean what they do in opset 21. Types and attributes that later
opsets add are supported unless this table says otherwise. A model has at most 262144 nodes, those of nested graphs included, 1024
inputs and 1024 outputs.

A test writes this page from the table of operations and ONNX's own tests (tools/golden/onnx_node_tests.sh fetches them). *tests* counts those that
contain the operation and pass within ONNX's own error bounds. *refused* lists all that do not pass, and some refusals that ONNX does not
test. A refusal is an error that names node and reason, never a wrong answer. [onnx_packages.md](onnx_packages.md) has whole networks.

- floats: FP16, BF16, FP32, FP64. The host computes in float64 and rounds when it stores; a device computes in float32 and rounds results
  of FP16 or BF16 to that type. NaN, infinities, overflow and limits of integers follow ONNX Runtime (TestEdges lists the differences).
- integers: INT8 to INT64 and UINT8 to UINT64. They wrap around; a division by 0 is 0.
- *gradient*: "yes", a gradient flows back; "refused", it is an error; empty, none is needed: the result is constant almost everywhere or has no
  floats.

| operation | first input | gradient | tests | refused |
|---|---|---|---|---|
`

func (d *table) String() string {
	var s strings.Builder
	s.WriteString(head)
	for _, name := range sorted(d.rows) {
		r := d.rows[name]
		op, _ := ops.Lookup(name)
		gradient := ""
		switch {
		case op.NoGrad != "":
			gradient = "refused"
		case op.Grad != nil:
			gradient = "yes"
		}
		var refused []string
		for _, why := range sorted(r.reasons) {
			switch n := r.reasons[why]; n {
			case 0:
			case 1:
				why += " (1 test)"
			default:
				why += fmt.Sprintf(" (%d tests)", n)
			}
			refused = append(refused, strings.ReplaceAll(why, "|", "\\|"))
		}
		fmt.Fprintf(&s, "| %s | %s | %s | %d | %s |\n", name, kinds(op.Types), gradient, r.passed, strings.Join(refused, "; "))
	}
	fmt.Fprintf(&s, "\nONNX has tests of these, which are refused by name: %s.\n", strings.Join(sorted(d.missing), ", "))
	return s.String()
}

func sorted[T any](m map[string]T) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// kinds shortens a list of types.
func kinds(types []engine.DType) string {
	s := ""
	for _, t := range types {
		s += ", " + t.String()
	}
	for _, k := range [][2]string{
		{"UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64", "integers"}, {"FP16, BF16, FP32, FP64", "floats"},
		{"UINT8, UINT16, UINT32, UINT64", "UINT8 to UINT64"}, {"INT8, INT16, INT32, INT64", "INT8 to INT64"},
		{"BOOL, integers, floats", "any"},
	} {
		s = strings.ReplaceAll(s, k[0], k[1])
	}
	return strings.TrimPrefix(s, ", ")
}
