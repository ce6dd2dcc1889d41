package inspect

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/engine/dnn/ops"
	"github.com/prefillonly/prefillonly/engine/dnn/specialize"
	"github.com/prefillonly/prefillonly/internal/mapped"
)

// Network is an ONNX file, with bytes as it has them.
type Network struct {
	Path       string           `json:"path"`
	Producer   string           `json:"producer"`
	Opset      int64            `json:"opset"`
	Files      int              `json:"files"`
	Bytes      int64            `json:"bytes"` // of tensors
	Types      map[string]int64 `json:"types"` // bytes of each
	Inputs     []Port           `json:"inputs"`
	Outputs    []Port           `json:"outputs"`
	Operations []Operation      `json:"operations"`
	Tensors    []Tensor         `json:"tensors"`
	FLOP       int64            `json:"flop,omitempty"`      // of a frame; 0 where it depends on sizes that the file leaves open
	OneFrame   string           `json:"one_frame,omitempty"` // why it takes no more at once than one
	Refused    string           `json:"refused,omitempty"`   // why it cannot be served
}

// Port is an input or an output. Dimensions of any size are -1, and have a name if the file gives one. Of an output
// whose number of dimensions is not known, Shape is nil.
type Port struct {
	Name  string   `json:"name"`
	Type  string   `json:"type"`
	Shape []int    `json:"shape"`
	Dims  []string `json:"dims,omitempty"`
}

// Operation is one of ONNX's, or of another domain as domain::operation, and how many nodes apply it.
type Operation struct {
	Name  string `json:"name"`
	Nodes int    `json:"nodes"`
	Known bool   `json:"known"`
}

// OpenNetwork reads an ONNX file. A network that cannot be served is described none the less.
func OpenNetwork(path string) (*Network, error) {
	m, err := onnx.Open(path)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	n := &Network{Path: path, Producer: m.Producer, Opset: m.Opset, Files: len(m.Files()), Types: map[string]int64{}}
	n.count(m)
	n.Inputs = portsOf(m.Graph.Inputs)
	if err := mapped.Guard(func() error { n.specializeGraph(m.Graph); return nil }); err != nil {
		return nil, err
	}
	return n, nil
}

// count lists operations and constants.
func (n *Network) count(m *onnx.Model) {
	nodes := map[string]int{}
	n.walkGraph(m, m.Graph, nodes, map[*graph.Value]bool{})
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		_, known := ops.Lookup(name)
		n.Operations = append(n.Operations, Operation{name, nodes[name], known})
	}
}

func (n *Network) walkGraph(m *onnx.Model, g *graph.Graph, nodes map[string]int, seen map[*graph.Value]bool) {
	for _, node := range g.Nodes {
		nodes[node.Op]++
		for _, v := range node.In {
			if v != nil && v.Const != nil && !seen[v] {
				seen[v] = true
				t := Tensor{v.Name, v.Type.String(), v.Shape, int64(len(v.Const.Data)), fileOf(m, v.Const)}
				n.Tensors = append(n.Tensors, t)
				n.Bytes += t.Bytes
				n.Types[t.Type] += t.Bytes
			}
		}
		for _, sub := range node.Subgraphs() {
			n.walkGraph(m, sub, nodes, seen)
		}
	}
}

// fileOf is the name of the file that a constant is in. Those that are copied out of one are small.
func fileOf(m *onnx.Model, t *graph.Tensor) string {
	for _, f := range m.Files() {
		if f.Holds(t.Data) {
			return filepath.Base(f.Path)
		}
	}
	return filepath.Base(m.Path)
}

func portsOf(values []*graph.Value) []Port {
	out := make([]Port, len(values))
	for i, v := range values {
		out[i] = Port{Name: v.Name, Shape: v.Shape, Dims: v.Dims}
		if v.Type != 0 {
			out[i].Type = v.Type.String()
		}
	}
	return out
}

// specializeGraph finds out what the network makes of its inputs, and of more frames than one.
func (n *Network) specializeGraph(g *graph.Graph) {
	asItIs, err := specialize.Run(g, nil)
	if err != nil {
		n.Refused, n.Outputs = err.Error(), portsOf(g.Outputs)
		return
	}
	for i, v := range asItIs.Outputs {
		if v.Rank < 0 {
			v = g.Outputs[i] // as the file says
		}
		n.Outputs = append(n.Outputs, portsOf([]*graph.Value{v})...)
	}
	if _, err := specialize.Run(g, frameShapes(g, 2)); err != nil {
		n.OneFrame = err.Error()
	}
	if one, err := specialize.Run(g, frameShapes(g, 1)); err == nil {
		n.FLOP = graphFLOP(one)
	}
}

// frameShapes are shapes of inputs for so many frames: along the first dimension, where that is open or 1.
func frameShapes(g *graph.Graph, count int) map[string][]int {
	shapes := map[string][]int{}
	for _, v := range g.Inputs {
		if v.Rank > 0 && (v.Shape[0] < 0 || v.Shape[0] == 1) {
			shape := slices.Clone(v.Shape)
			shape[0] = count
			shapes[v.Name] = shape
		}
	}
	return shapes
}
