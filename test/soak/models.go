package main

import (
	"os"
	"path/filepath"
	"strconv"

	"github.com/prefillonly/prefillonly/engine/demo/demotest"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
)

func modelName(i int) string { return "m" + strconv.Itoa(i) }

// networkName is the network's, and side that of its pictures.
const (
	networkName = "net"
	side        = 12
)

// language is how many language models are served under names; a network beside it gives the demo model one.
func (c config) language() int {
	if c.frames {
		return max(c.models, 1)
	}
	return c.models
}

// writeModels writes the models that are to be served, and returns the arguments that say so; remove deletes them.
func writeModels(c config) (args []string, remove func(), err error) {
	if c.memory != "" {
		args = []string{"--memory", c.memory}
	}
	if c.language() == 0 {
		return args, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "soak-")
	if err != nil {
		return nil, nil, err
	}
	if c.frames {
		network := filepath.Join(dir, networkName+".onnx")
		if err := os.WriteFile(network, onnxtest.File(17, edges()), 0o600); err != nil {
			_ = os.RemoveAll(dir)
			return nil, nil, err
		}
		args = append(args, networkName+"="+network)
	}
	for i := range c.language() {
		model := filepath.Join(dir, modelName(i))
		if err := demotest.Variant(model, byte(1+i)); err != nil {
			_ = os.RemoveAll(dir)
			return nil, nil, err
		}
		args = append(args, model)
	}
	return args, func() { _ = os.RemoveAll(dir) }, nil
}

// edges is a convolution of pictures, and the mean of each of its channels.
func edges() onnxtest.Graph {
	kernel := make([]float64, 4*3*3*3)
	for i := range kernel {
		kernel[i] = float64(i%7) - 3
	}
	value := func(name string, dims ...any) []onnxtest.Value {
		return []onnxtest.Value{{Name: name, Type: onnxtest.Float32, Dims: dims}}
	}
	return onnxtest.Graph{
		Inputs:    value("image", "n", 3, side, side),
		Outputs:   value("mean", "n", 4, 1, 1),
		Constants: []onnxtest.Tensor{onnxtest.Floats("w", []int{4, 3, 3, 3}, kernel...)},
		Nodes: []onnxtest.Node{
			{Op: "Conv", In: []string{"image", "w"}, Out: []string{"c"}},
			{Op: "Relu", In: []string{"c"}, Out: []string{"edges"}},
			{Op: "GlobalAveragePool", In: []string{"edges"}, Out: []string{"mean"}},
		},
	}
}
