package main

import (
	"errors"
	"fmt"
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

// languageModels is how many language models are served under names; a network beside gives the demo model one.
func (c config) languageModels() int {
	if c.frames || c.streams {
		return max(c.models, 1)
	}
	return c.models
}

// writeModels writes the models that are to be served, and returns the arguments that say so; remove deletes them.
func writeModels(c config) (args []string, remove func(), err error) {
	if c.memory != "" {
		args = []string{"--memory", c.memory}
	}
	if c.languageModels() == 0 {
		return args, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "soak-")
	if err != nil {
		return nil, nil, err
	}
	list, err := writeList(c, dir)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "models.yaml"), []byte(list), 0o600)
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, nil, err
	}
	args = append(args, "--config", filepath.Join(dir, "models.yaml"))
	if c.streams {
		args = append(args, "--video-files", filepath.Dir(c.clip), "--video-state", filepath.Join(dir, "streams"))
	}
	return args, func() { _ = os.RemoveAll(dir) }, nil
}

// writeList writes models into a directory, and returns the list of them.
func writeList(c config, dir string) (list string, err error) {
	list = "models:\n"
	network := func(name string, g onnxtest.Graph, more string) {
		path := filepath.Join(dir, name+".onnx")
		err = errors.Join(err, os.WriteFile(path, onnxtest.File(17, g), 0o600))
		list += fmt.Sprintf("- {name: %s, path: %q%s}\n", name, path, more)
	}
	if c.frames {
		network(networkName, edgeNetwork(), "")
	}
	if c.streams {
		network(eyeName, onnxtest.Eye(1), ", image: {scale: [255]}, decoder: ssd")
	}
	for i := range c.languageModels() {
		path := filepath.Join(dir, modelName(i))
		err = errors.Join(err, demotest.Variant(path, byte(1+i)))
		list += fmt.Sprintf("- {name: %s, path: %q}\n", modelName(i), path)
	}
	return list, err
}

// edgeNetwork is a convolution of pictures, and the mean of each of its channels.
func edgeNetwork() onnxtest.Graph {
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
