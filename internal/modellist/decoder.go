package modellist

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/images"
	"github.com/prefillonly/prefillonly/engine/inspect"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/videoext/vision"
)

// checkDecoder refuses a decoder that does not read what a model computes, as far as its file tells.
func checkDecoder(m *config.Model) error {
	switch m.Decoder {
	case "":
		return nil
	case config.DecoderCTC:
		return checkSteps(m)
	}
	decoder, err := vision.Find(m.Decoder)
	switch {
	case err != nil:
		return fmt.Errorf("model %s: decoder: %w", m.Names[0], err)
	case m.Task != config.TaskInfer:
		return fmt.Errorf("model %s: decoder %s reads outputs of a network (ONNX), but the model is a checkpoint of text", m.Names[0], m.Decoder)
	}
	file, _ := dnn.File(m.Path)
	n, err := inspect.OpenNetwork(file)
	if err != nil || n.Refused != "" {
		return err // an executor says why it is refused
	}
	if len(n.Inputs) != 1 {
		return fmt.Errorf("model %s: decoder %s is for networks of one input, a picture; got %d inputs", m.Names[0], m.Decoder, len(n.Inputs))
	}
	in := n.Inputs[0]
	to, err := images.NewTarget(typeOf(in.Type), in.Shape, ImageOptions(&m.Image))
	if err != nil {
		return fmt.Errorf("model %s: decoder %s: input %s: %w", m.Names[0], m.Decoder, in.Name, err)
	}
	if err := decoder.Check(Outputs(n), vision.Size{Height: max(to.Height, 0), Width: max(to.Width, 0)}); err != nil {
		return fmt.Errorf("model %s: %w", m.Names[0], err)
	}
	return nil
}

// typeOf is a type by its name.
func typeOf(name string) engine.DType {
	for _, t := range []engine.DType{engine.Uint8, engine.FP16, engine.FP32} {
		if t.String() == name {
			return t
		}
	}
	return engine.Int64 // no picture's
}

// Outputs are those of a network that a decoder may read: of floating-point numbers, without values.
func Outputs(n *inspect.Network) (outputs []vision.Output) {
	for _, o := range n.Outputs {
		if slices.Contains([]string{"FP32", "FP16", "BF16"}, o.Type) {
			outputs = append(outputs, vision.Output{Name: o.Name, Shape: o.Shape})
		}
	}
	return outputs
}
