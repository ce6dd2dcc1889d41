package inspect

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/merging"
)

// OpenLayers reads which layers of an ONNX file others may share weights with. Biases stay each one's own, and weights that
// several nodes of the file have are one layer.
func OpenLayers(path string) (merging.Model, error) {
	m, err := onnx.Open(path)
	if err != nil {
		return merging.Model{}, err
	}
	defer m.Close()
	model := merging.Model{Name: strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))}
	for _, l := range Layers(m.Graph) {
		model.Layers = append(model.Layers, l.Layer)
	}
	if len(model.Layers) == 0 {
		return model, fmt.Errorf("%s has no layer whose weights are constants of the file: want a convolution or a product", path)
	}
	return model, nil
}

// Layer is one of a graph, with its constants.
type Layer struct {
	merging.Layer
	Node    *graph.Node
	Weights *graph.Value
	Bias    *graph.Value // nil: none, or another layer's
}

// Layers are those of a graph whose weights others may have, with the names that merging knows them by; those of subgraphs are where their node is.
func Layers(g *graph.Graph) []Layer { return addLayers(nil, g, map[*graph.Value]bool{}) }

// weightInputs are the places of weights among the inputs of an operation; a bias comes after.
var weightInputs = map[string][]int{"Conv": {1}, "ConvTranspose": {1}, "Gemm": {1}, "MatMul": {1, 0}}

func addLayers(list []Layer, g *graph.Graph, seen map[*graph.Value]bool) []Layer {
	for _, n := range g.Nodes {
		if weights := weightsOf(n); weights != nil && !seen[weights] {
			seen[weights] = true
			l := Layer{Node: n, Weights: weights}
			l.Name, l.Signature, l.Bytes = nodeName(n), signature(n, weights), int64(len(weights.Const.Data))
			if bias := n.Input(2); bias != nil && bias.Const != nil && !seen[bias] {
				seen[bias] = true
				l.Bias, l.Own = bias, int64(len(bias.Const.Data))
			}
			list = append(list, l)
		}
		for _, sub := range n.Subgraphs() {
			list = addLayers(list, sub, seen)
		}
	}
	return list
}

// weightsOf are a layer's weights, nil of what is no layer or computes them.
func weightsOf(n *graph.Node) *graph.Value {
	for _, i := range weightInputs[n.Op] {
		if v := n.Input(i); v != nil && v.Const != nil {
			return v
		}
	}
	return nil
}

func nodeName(n *graph.Node) string {
	if n.Name == "" && n.Output(0) != nil {
		return n.Output(0).Name
	}
	return n.Name
}

// signature is what tells a layer's weights apart: operation, type and shape of the weights, and attributes but for those that
// are as ONNX has them where they are not given.
func signature(n *graph.Node, weights *graph.Value) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s%v", n.Op, weights.Type, weights.Const.Shape)
	if n.Input(0) == weights {
		b.WriteString(" left")
	}
	for _, name := range []string{"strides", "pads", "dilations", "output_padding"} {
		values, usual := graph.Attr(n, name, []int64(nil)), int64(0)
		if name == "strides" || name == "dilations" {
			usual = 1
		}
		if slices.ContainsFunc(values, func(v int64) bool { return v != usual }) {
			fmt.Fprintf(&b, " %s%v", name, values)
		}
	}
	for _, name := range []string{"group", "transA", "transB"} {
		usual := int64(0)
		if name == "group" {
			usual = 1
		}
		if v := graph.Attr(n, name, usual); v != usual {
			fmt.Fprintf(&b, " %s %d", name, v)
		}
	}
	for _, name := range []string{"alpha", "beta"} {
		if v := graph.Attr(n, name, 1.); v != 1 {
			fmt.Fprintf(&b, " %s %g", name, v)
		}
	}
	if v := graph.Attr(n, "auto_pad", "NOTSET"); v != "NOTSET" && v != "" {
		fmt.Fprintf(&b, " %s", v)
	}
	return b.String()
}
