package onnx

import (
	"strings"
	"testing"

	. "github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
)

type attrs = map[string]any

// Each case is a node of an old opset that computes y of x, and the graph that it becomes, without its first and
// last line.
func TestLifted(t *testing.T) {
	half := Value{Name: "x", Type: Float16, Dims: []any{1, 4}}
	for name, c := range map[string]struct {
		opset int
		node  Node
		want  string
		in    *Value
	}{
		"BatchNormalization":        {9, Node{Op: "BatchNormalization", In: []string{"x", "x", "x", "x", "x"}}, `y FP32[1,4] = BatchNormalization(x, x, x, x, x)`, nil},
		"BatchNormalization trains": {9, Node{Op: "BatchNormalization", In: []string{"x", "x", "x", "x", "x"}, Out: []string{"z", "y", "", "", ""}}, `-, y FP32[1,4], - = BatchNormalization(x, x, x, x, x) training_mode=1`, nil},
		"Clip":                      {6 + 1, Node{Op: "Clip", Attrs: attrs{"min": 0., "max": 6.}}, `y FP32[1,4] = Clip(x, FP32[][0], FP32[][6])`, nil},
		"Clip FP16":                 {10, Node{Op: "Clip", Attrs: attrs{"max": 6.}}, `y FP32[1,4] = Clip(x, -, FP16[][6])`, &half},
		"Clip of nothing":           {10, Node{Op: "Clip", Attrs: attrs{"max": 3.402823466e+38}}, `y FP32[1,4] = Clip(x)`, nil},
		"Clip since 11":             {11, Node{Op: "Clip", In: []string{"x", "", "x"}}, `y FP32[1,4] = Clip(x, -, x)`, nil},
		"Constant":                  {13, Node{Op: "Add", In: []string{"x", "c"}}, `y FP32[1,4] = Add(x, [1 2])`, nil},
		"Dropout":                   {9, Node{Op: "Dropout", Attrs: attrs{"ratio": 0.5}}, `y FP32[1,4] = Identity(x)`, nil},
		"Dropout's mask":            {9, Node{Op: "Dropout", Out: []string{"z", "y"}}, "Shape_out ?[...] = Shape(x)\ny FP32[1,4] = ConstantOfShape(Shape_out) value=FP32[1]", nil},
		"GridSample":                {16, Node{Op: "GridSample", In: []string{"x", "x"}, Attrs: attrs{"mode": "bicubic"}}, `y FP32[1,4] = GridSample(x, x) mode=cubic`, nil},
		"Pad":                       {9, Node{Op: "Pad", Attrs: attrs{"pads": []int{0, 1, 0, 2}, "value": 1.5}}, `y FP32[1,4] = Pad(x, [0 1 0 2], FP32[][1.5])`, nil},
		"Pad of the edge":           {9, Node{Op: "Pad", Attrs: attrs{"pads": []int{0, 1, 0, 2}, "mode": "edge"}}, `y FP32[1,4] = Pad(x, [0 1 0 2]) mode=edge`, nil},
		"ReduceMax":                 {17, Node{Op: "ReduceMax", Attrs: attrs{"axes": []int{1}, "keepdims": 0}}, `y FP32[1,4] = ReduceMax(x, [1]) keepdims=0`, nil},
		"ReduceSum of all":          {12, Node{Op: "ReduceSum"}, `y FP32[1,4] = ReduceSum(x)`, nil},
		"Resize 10":                 {10, Node{Op: "Resize", In: []string{"x", "c"}}, `y FP32[1,4] = Resize(x, -, [1 2]) coordinate_transformation_mode=asymmetric mode=nearest nearest_mode=floor`, nil},
		"Resize without roi":        {11, Node{Op: "Resize", In: []string{"x", "e", "e", "c"}}, `y FP32[1,4] = Resize(x, -, -, [1 2])`, nil},
		"Resize of TensorFlow":      {11, Node{Op: "Resize", In: []string{"x", "", "c"}, Attrs: attrs{"coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": "floor"}}, `y FP32[1,4] = Resize(x, -, [1 2]) coordinate_transformation_mode=half_pixel nearest_mode=round_prefer_ceil`, nil},
		"RoiAlign":                  {10, Node{Op: "RoiAlign", In: []string{"x", "x", "x"}}, `y FP32[1,4] = RoiAlign(x, x, x) coordinate_transformation_mode=output_half_pixel`, nil},
		"Scatter":                   {9, Node{Op: "Scatter", In: []string{"x", "x", "x"}, Attrs: attrs{"axis": 1}}, `y FP32[1,4] = ScatterElements(x, x, x) axis=1`, nil},
		"Slice":                     {9, Node{Op: "Slice", Attrs: attrs{"starts": []int{1}, "ends": []int{-1}, "axes": []int{1}}}, `y FP32[1,4] = Slice(x, [1], [-1], [1])`, nil},
		"Softmax":                   {11, Node{Op: "Softmax", Attrs: attrs{"axis": 2}}, "Shape_out ?[...] = Shape(x)\nFlatten_out ?[...] = Flatten(x) axis=2\nSoftmax_out ?[...] = Softmax(Flatten_out) axis=-1\ny FP32[1,4] = Reshape(Softmax_out, Shape_out)", nil},
		"Softmax of rows":           {11, Node{Op: "LogSoftmax", Attrs: attrs{"axis": -1}}, "y FP32[1,4] = LogSoftmax(x) axis=-1", nil},
		"Softmax since 13":          {13, Node{Op: "Softmax"}, "y FP32[1,4] = Softmax(x)", nil},
		"Split":                     {11, Node{Op: "Split", Out: []string{"y", "z"}, Attrs: attrs{"split": []int{1, 3}, "axis": 1}}, `y FP32[1,4], - = Split(x, [1 3]) axis=1`, nil},
		"Split equally":             {17, Node{Op: "Split", Out: []string{"y", "z"}, Attrs: attrs{"axis": 1}}, `y FP32[1,4], - = Split(x) axis=1 num_outputs=2`, nil},
		"Squeeze":                   {11, Node{Op: "Squeeze", Attrs: attrs{"axes": []int{0}}}, `y FP32[1,4] = Squeeze(x, [0])`, nil},
		"Squeeze all":               {11, Node{Op: "Squeeze"}, `y FP32[1,4] = Squeeze(x)`, nil},
		"TopK":                      {9, Node{Op: "TopK", Out: []string{"y", "z"}, Attrs: attrs{"k": 2}}, `y FP32[1,4], - = TopK(x, [2])`, nil},
		"Unsqueeze":                 {9, Node{Op: "Unsqueeze", Attrs: attrs{"axes": []int{0, 3}}}, `y FP32[1,4] = Unsqueeze(x, [0 3])`, nil},
		"Upsample 7":                {7, Node{Op: "Upsample", Attrs: attrs{"scales": []float64{1, 2}, "mode": "linear"}}, `y FP32[1,4] = Resize(x, -, FP32[2][1 2]) coordinate_transformation_mode=asymmetric mode=linear nearest_mode=floor`, nil},
		"Upsample 9 down":           {9, Node{Op: "Upsample", In: []string{"x", "h"}}, `y FP32[1,4] = Resize(x, -, FP32[2][1 0.5]) coordinate_transformation_mode=asymmetric mode=nearest nearest_mode=ceil`, nil},
		"another domain":            {13, Node{Op: "Gelu", Domain: "com.microsoft"}, `y FP32[1,4] = com.microsoft::Gelu(x)`, nil},
		"the default domain":        {13, Node{Op: "Relu", Domain: "ai.onnx"}, `y FP32[1,4] = Relu(x)`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			n := c.node
			if n.In == nil {
				n.In = []string{"x"}
			}
			if n.Out == nil {
				n.Out = []string{"y"}
			}
			g := withNodes(Node{Op: "Constant", Out: []string{"c"}, Attrs: attrs{"value": Ints("", 1, 2)}}, n)
			g.Constants = []Tensor{Ints("e"), Floats("h", []int{2}, 1, 0.5)}
			if c.in != nil {
				g.Inputs = []Value{*c.in}
			}
			m, err := Parse(File(c.opset, g))
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSpace(m.Graph.String()), "\n")
			if got := strings.Join(lines[1:len(lines)-1], "\n"); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// Identities vanish, and outputs keep their names all the same.
func TestIdentitiesVanish(t *testing.T) {
	id := func(from, to string) Node { return Node{Op: "Identity", In: []string{from}, Out: []string{to}} }
	out := func(name string) Value { return Value{Name: name, Type: Float32, Dims: []any{1, 4}} }
	branch := Graph{Name: "then", Nodes: []Node{id("x", "t"), relu("", "t", "r"), id("r", "y")}, Outputs: []Value{y}}
	g := Graph{Name: "g", Inputs: []Value{x}, Outputs: []Value{out("a"), out("b"), out("c"), out("d")}, Nodes: []Node{
		id("m", "a"), id("p", "m"), relu("r", "n", "p"), id("x", "n"), id("p", "b"), id("x", "c"),
		{Name: "if", Op: "If", In: []string{"n"}, Out: []string{"d"}, Attrs: attrs{"then_branch": branch}},
	}}
	m, err := Parse(File(13, g))
	if err != nil {
		t.Fatal(err)
	}
	want := `g(x FP32[1,4])
a FP32[1,4] = Relu(x)
d FP32[1,4] = If(x) then_branch=then
    then()
    r ?[...] = Relu(x)
    return r
b FP32[1,4] = Identity(a)
c FP32[1,4] = Identity(x)
return a, b, c, d
`
	if got := m.Graph.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Branches may use the names of other branches and of what is around them: in the graph names differ.
func TestNamesOfBranchesDiffer(t *testing.T) {
	then := Graph{Name: "then", Nodes: []Node{relu("n", "x", "v")}, Outputs: []Value{{Name: "v", Type: Float32}}}
	otherwise := Graph{Name: "else", Nodes: []Node{relu("n", "x", "v")}, Outputs: []Value{{Name: "v", Type: Float32}}}
	g := withNodes(Node{Op: "If", In: []string{"x"}, Out: []string{"y"}, Attrs: attrs{"then_branch": then, "else_branch": otherwise}})
	m, err := Parse(File(13, g))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, sub := range m.Graph.Nodes[0].Subgraphs() {
		names[sub.Outputs[0].Name] = true
	}
	if len(names) != 2 {
		t.Errorf("names of values: %v", names)
	}
}

// Initializers that are listed as inputs too, as before IR version 4, are constants.
func TestInitializedInputsAreConstants(t *testing.T) {
	g := withConstant(Floats("c", []int{1, 4}, 1, 2, 3, 4))
	g.Inputs = append(g.Inputs, Value{Name: "c", Type: Float32, Dims: []any{1, 4}})
	m, err := Parse(File(9, g))
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Graph.Inputs) != 1 || m.Graph.Nodes[0].In[1].Const == nil {
		t.Errorf("got\n%s", m.Graph)
	}
}
