package checkpoint

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/prefillonly/prefillonly/engine/pooling"
	"github.com/prefillonly/prefillonly/engine/weights"
)

// denseActivations are the functions behind a linear layer, by the names of torch's classes.
var denseActivations = map[string]func(float32) float32{
	"Identity": nil,
	"Tanh":     func(x float32) float32 { return float32(math.Tanh(float64(x))) },
	"ReLU":     pooling.ReLU,
	"GELU":     func(x float32) float32 { return float32(float64(x) / 2 * math.Erfc(-float64(x)/math.Sqrt2)) },
	"Sigmoid":  func(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) },
}

// readDense reads a linear layer that vectors go through behind the pooling.
func (m *Model) readDense(dir, path string) error {
	if m.Kind != Embedder || m.Normalize {
		return errors.New("modules.json has a Dense before Pooling or after Normalize, which is not supported")
	}
	if !filepath.IsLocal(path) {
		return checkModulePath(path)
	}
	name := filepath.Join(path, "config.json")
	c := struct {
		In         int    `json:"in_features"`
		Out        int    `json:"out_features"`
		Bias       *bool  `json:"bias"`
		Activation string `json:"activation_function"`
		Input      string `json:"module_input_name"`
		Output     string `json:"module_output_name"`
		Residual   bool   `json:"use_residual"`
	}{Activation: "Tanh", Input: "sentence_embedding"}
	found, err := readJSONFile(dir, name, &c)
	activation, known := denseActivations[c.Activation[strings.LastIndexByte(c.Activation, '.')+1:]]
	const most = 1 << 16
	switch {
	case err != nil:
		return err
	case !found:
		return fmt.Errorf("missing %s, which modules.json names", name)
	case c.In < 1 || c.Out < 1 || c.In > most || c.Out > most || m.Width > 0 && c.In != m.Width:
		return fmt.Errorf("%[1]s takes vectors of %[3]d numbers to %[2]d, got vectors of %[4]d", name, c.Out, c.In, m.Width)
	case !known:
		return fmt.Errorf("%s: unsupported activation_function %.80q: want Identity, Tanh, ReLU, GELU or Sigmoid", name, c.Activation)
	case c.Residual || c.Input != "sentence_embedding" || c.Output != "" && c.Output != c.Input:
		return fmt.Errorf("%s has a residual connection, or reads %q and writes %q: only a layer from sentence_embedding to itself is supported", name, c.Input, c.Output)
	}
	layer, err := denseLayer(filepath.Join(dir, path), c.In, c.Out, c.Bias == nil || *c.Bias)
	if err != nil {
		return fmt.Errorf("%w; without a model.safetensors, save the checkpoint again with sentence-transformers' save_pretrained", err)
	}
	layer.After = activation
	m.Dense, m.Width = append(m.Dense, layer), c.Out
	return nil
}

func denseLayer(dir string, in, out int, bias bool) (l pooling.Layer, err error) {
	source, err := weights.Open(dir)
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	if l.Weight, err = readMatrix(source, "linear.weight", out, in); err == nil && bias {
		l.Bias, err = readMatrix(source, "linear.bias", out)
	}
	return l, err
}

func readMatrix(source *weights.Checkpoint, name string, shape ...int) (*pooling.Matrix, error) {
	t, err := source.Tensor(name, shape...)
	if err != nil {
		return nil, err
	}
	return pooling.NewMatrix(t)
}
