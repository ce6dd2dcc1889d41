package onnx

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	. "github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
)

var (
	x = Value{Name: "x", Type: Float32, Dims: []any{1, 4}}
	y = Value{Name: "y", Type: Float32, Dims: []any{1, 4}}
)

// withNodes is a graph from x to y.
func withNodes(nodes ...Node) Graph {
	return Graph{Name: "g", Nodes: nodes, Inputs: []Value{x}, Outputs: []Value{y}}
}

// withConstant is a graph that adds a constant to x.
func withConstant(t Tensor) Graph {
	g := withNodes(Node{Name: "add", Op: "Add", In: []string{"x", t.Name}, Out: []string{"y"}})
	g.Constants = []Tensor{t}
	return g
}

func relu(name, from, to string) Node {
	return Node{Name: name, Op: "Relu", In: []string{from}, Out: []string{to}}
}

// nested is an If in an If and so on.
func nested(depth int) Graph {
	g := withNodes(relu("inner", "x", "y"))
	for range depth {
		g = Graph{Nodes: []Node{{Name: "if", Op: "If", In: []string{"x"}, Out: []string{"y"}, Attrs: map[string]any{"then_branch": g}}}, Outputs: []Value{y}}
	}
	g.Inputs = []Value{x}
	return g
}

func TestRefused(t *testing.T) {
	string_ := Value{Name: "x", Type: String, Dims: []any{1}}
	for name, c := range map[string]struct {
		opset int
		g     Graph
		want  string
	}{
		"old opset":         {6, withNodes(relu("a", "x", "y")), "unsupported opset 6: want 7 to 25"},
		"new opset":         {99, withNodes(relu("a", "x", "y")), "unsupported opset 99"},
		"cycle":             {11, withNodes(relu("a", "v", "u"), relu("b", "u", "v"), Node{Name: "c", Op: "Add", In: []string{"u", "v"}, Out: []string{"y"}}), `Relu node "a" is on a cycle`},
		"missing input":     {11, withNodes(relu("a", "nothing", "y")), `Relu node "a" reads "nothing": want an input, a constant or an output of a node`},
		"defined twice":     {11, withNodes(relu("a", "x", "y"), relu("b", "x", "y")), `Relu node "b": output "y" is defined twice`},
		"redefines input":   {11, withNodes(relu("a", "y", "x")), `Relu node "a": output "x" is defined twice`},
		"missing output":    {11, withNodes(relu("a", "x", "z")), `output "y" is computed by no node`},
		"no output":         {11, Graph{Nodes: []Node{relu("a", "x", "y")}, Inputs: []Value{x}}, "graph has no outputs"},
		"strings":           {11, Graph{Nodes: []Node{relu("a", "x", "y")}, Inputs: []Value{string_}, Outputs: []Value{y}}, `input "x": element type STRING is not supported`},
		"unnamed node":      {11, withNodes(relu("", "nothing", "y")), `Relu node that computes "y" reads "nothing"`},
		"too few bytes":     {11, withConstant(Tensor{Name: "c", Type: Float32, Dims: []int{1, 4}, Raw: make([]byte, 12)}), `initializer "c": got 12 bytes of data, shape [1 4] of FP32 takes 16`},
		"too many elements": {11, withConstant(Tensor{Name: "c", Type: Int64, Dims: []int{1, 1}, Ints: []int{1, 2}}), `initializer "c": got more elements than shape [1 1] of INT64`},
		"no data":           {11, withConstant(Tensor{Name: "c", Type: Int64, Dims: []int{3}}), `got 0 bytes of data`},
		"a billion":         {11, withConstant(Tensor{Name: "c", Type: Int64, Dims: []int{1e9}, Ints: []int{1, 2}}), `claims 1000000000 elements in a message of`},
		"overflow":          {11, withConstant(Tensor{Name: "c", Type: Int64, Dims: []int{1 << 40, 1 << 40}, Raw: []byte{0}}), `invalid shape [1099511627776 1099511627776]`},
		"negative":          {11, withConstant(Tensor{Name: "c", Type: Int64, Dims: []int{-1}, Raw: []byte{0}}), `invalid shape [-1]`},
		"float8":            {19, withConstant(Tensor{Name: "c", Type: 17, Dims: []int{1}, Raw: []byte{0}}), `initializer "c": element type FLOAT8E4M3FN`},
		"odd type":          {19, withConstant(Tensor{Name: "c", Type: 77, Dims: []int{1}, Raw: []byte{0}}), `invalid element type 77`},
		"external":          {11, withConstant(Tensor{Name: "c", Type: Int64, Dims: []int{1}, External: map[string]string{"location": "w"}}), `data is in another file, "w"`},
		"deep":              {11, nested(40), "graphs are nested deeper than 32"},
		"string constant":   {13, withNodes(Node{Name: "s", Op: "Constant", Out: []string{"y"}, Attrs: map[string]any{"value_string": "s"}}), `Constant node "s": attribute value_string is not supported`},
		"training":          {13, withNodes(Node{Name: "d", Op: "Dropout", In: []string{"x", "", "x"}, Out: []string{"y"}}), `Dropout node "d": training_mode is computed`},
		"no input":          {9, withNodes(Node{Name: "c", Op: "Clip", Out: []string{"y"}}), `Clip node "c": missing input 0`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(File(c.opset, c.g))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}

// Every beginning of a model is an error, and that of a file names it.
func TestCutShort(t *testing.T) {
	whole := File(11, withConstant(Floats("c", []int{1, 4}, 1, 2, 3, 4)))
	if _, err := Parse(whole); err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) {
		if _, err := Parse(whole[:n]); err == nil {
			t.Errorf("the first %d of %d bytes are a model", n, len(whole))
		}
	}
	path := filepath.Join(t.TempDir(), "short.onnx")
	if err := os.WriteFile(path, whole[:len(whole)-3], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.HasPrefix(err.Error(), path+": ") {
		t.Errorf("got %v", err)
	}
}

func TestExternalData(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "model")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "sub"), 0o755), os.WriteFile(filepath.Join(parent, "secret"), make([]byte, 32), 0o644),
		os.WriteFile(filepath.Join(dir, "sub", "w"), []byte("................\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40\x00\x00\x80\x40"), 0o644),
		os.Symlink("../secret", filepath.Join(dir, "out")), os.Symlink("sub/w", filepath.Join(dir, "in")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "m.onnx")
	open := func(where map[string]string) (*Model, error) {
		g := withConstant(Tensor{Name: "c", Type: Float32, Dims: []int{1, 4}, External: where})
		if err := os.WriteFile(path, File(11, g), 0o644); err != nil {
			t.Fatal(err)
		}
		return Open(path)
	}
	for _, location := range []string{"sub/w", "./sub/../sub/w", "in"} {
		m, err := open(map[string]string{"location": location, "offset": "16", "length": "16"})
		if err != nil {
			t.Errorf("%s: %v", location, err)
			continue
		}
		if got := m.Graph.Nodes[0].In[1].Const.Floats(); got[0] != 1 || got[3] != 4 {
			t.Errorf("%s: got %v", location, got)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	for want, where := range map[string]map[string]string{
		"want a path within the model's directory":    {"location": "../secret"},
		`"/etc/passwd" of external data: want a path`: {"location": "/etc/passwd"},
		"path escapes from parent":                    {"location": "out"},
		"no such file":                                {"location": "gone"},
		"is a directory":                              {"location": "sub"},
		"want 16 bytes at offset 17 of":               {"location": "sub/w", "offset": "17"},
		"got 8 bytes in":                              {"location": "sub/w", "length": "8"},
		`invalid offset "-4"`:                         {"location": "sub/w", "offset": "-4"},
		`invalid length "9223372036854775808"`:        {"location": "sub/w", "length": "9223372036854775808"},
	} {
		if _, err := open(where); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `initializer "c"`) {
			t.Errorf("%v: got %v", where, err)
		}
	}
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A file of nothing but empty nodes stops at the bound of nodes, whatever its size.
func TestMemoryOfManySmallNodes(t *testing.T) {
	g := make([]byte, 0, 64<<20)
	for len(g) < cap(g) {
		g = append(g, 0x0a, 0)
	}
	m := append([]byte{0x3a, 0x80, 0x80, 0x80, 0x20}, g...)
	var err error
	all := allocated(func() { _, err = Parse(m) })
	if err == nil || !strings.Contains(err.Error(), "got at least 33554432 nodes, want at most 262144") {
		t.Errorf("got %v", err)
	}
	if all > 512<<20 {
		t.Errorf("%d MiB allocated for 64 MiB", all>>20)
	}
}

// As many nodes as are read may have the attributes that nodes have, and a description of what each computes.
func TestAsManyConvolutionsAsNodesAreDecoded(t *testing.T) {
	one := withNodes(Node{Name: "/layer/Conv", Op: "Conv", In: []string{"x", "w", "b"}, Out: []string{"y"}, Attrs: map[string]any{
		"dilations": []int{1, 1}, "group": 1, "kernel_shape": []int{3, 3}, "pads": []int{1, 1, 1, 1}, "strides": []int{1, 1}}})
	one.Inputs, one.Outputs = nil, []Value{{Name: "y", Type: Float32, Dims: []any{1, 32, 64, 64}}}
	var d decoder
	var m modelProto
	if err := d.decodeModel(File(13, one), &m); err != nil || len(m.graph.nodes) != 1 {
		t.Fatalf("%d nodes: %v", len(m.graph.nodes), err)
	}
	if all := d.bytes * maxNodes; all > maxDecoded {
		t.Errorf("%d convolutions take %d MiB, and %d are read", maxNodes, all>>20, maxDecoded>>20)
	}
}

// A file of nothing but empty attributes stops at the bound of memory.
func TestMemoryOfManySmallAttributes(t *testing.T) {
	node := bytes.Repeat([]byte{0x2a, 0}, 8<<20)
	g := append(protowire.AppendVarint([]byte{0x0a}, uint64(len(node))), node...)
	m := append(protowire.AppendVarint([]byte{0x3a}, uint64(len(g))), g...)
	var err error
	if all := allocated(func() { _, err = Parse(m) }); all > 1<<30 {
		t.Errorf("%d MiB allocated for 16 MiB", all>>20)
	}
	if err == nil || !strings.Contains(err.Error(), "take more than 512 MiB") {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(File(11, withConstant(Floats("c", []int{1, 4}, 1, 2, 3, 4))))
	f.Add(File(9, withNodes(Node{Op: "Softmax", In: []string{"x"}, Out: []string{"y"}})))
	f.Add(File(7, withNodes(Node{Op: "Upsample", In: []string{"x"}, Out: []string{"z"}, Attrs: map[string]any{"scales": []float64{1, 2}}}, Node{Op: "Dropout", In: []string{"z"}, Out: []string{"y", "m"}})))
	f.Add(File(10, withNodes(Node{Op: "Constant", Out: []string{"s"}, Attrs: map[string]any{"value": Ints("", 1, 2)}}, Node{Op: "Resize", In: []string{"x", "s"}, Out: []string{"y"}})))
	f.Add(File(13, nested(3)))
	f.Fuzz(func(t *testing.T, data []byte) {
		var m *Model
		var err error
		if got := allocated(func() { m, err = Parse(data) }); got > 1<<20+1000*uint64(len(data)) {
			t.Errorf("%d bytes allocated for %d", got, len(data))
		}
		if err != nil {
			return
		}
		if m.Graph.String() == "" || len(m.Graph.Outputs) == 0 {
			t.Error("an empty graph")
		}
		if err := m.Graph.Sort(); err != nil {
			t.Error(err)
		}
	})
}
