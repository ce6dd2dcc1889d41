package checkpoint

import (
	"encoding/binary"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine/weights"
	"github.com/prefillonly/prefillonly/kernels"
)

const denseModules = `[{"path":"","type":"sentence_transformers.models.Transformer"},{"path":"1_Pooling","type":"sentence_transformers.models.Pooling"},
	{"path":"2_Dense","type":"sentence_transformers.base.modules.dense.Dense"},{"path":"3_Dense","type":"sentence_transformers.models.Dense"},{"path":"4_Normalize","type":"sentence_transformers.models.Normalize"}]`

// tensor is a float32 tensor of these numbers.
func tensor(name string, shape []int, numbers ...float32) kernels.HostTensor {
	t := kernels.HostTensor{Name: name, Type: kernels.F32, Rows: 1, Cols: shape[len(shape)-1]}
	if len(shape) == 2 {
		t.Rows = shape[0]
	}
	for _, x := range numbers {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(x))
	}
	return t
}

// denseFiles are those of an embedder of two numbers with layers to three and to two.
func denseFiles(t *testing.T, first, second string) string {
	t.Helper()
	dir := files(t, "m", map[string]string{
		"config.json": `{"architectures":["BertModel"],"hidden_size":2}`, "modules.json": denseModules, "1_Pooling/config.json": `{"pooling_mode":"cls"}`,
		"2_Dense/config.json": first, "3_Dense/config.json": second,
	})
	for path, list := range map[string][]kernels.HostTensor{
		"2_Dense": {tensor("linear.weight", []int{3, 2}, 1, 0, 0, 1, -1, -1)},
		"3_Dense": {tensor("linear.weight", []int{2, 3}, 1, 2, 3, 0, 0, 0), tensor("linear.bias", []int{2}, -5, 0)},
	} {
		if err := weights.WriteFile(filepath.Join(dir, path, "model.safetensors"), list); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestDense: the layers are those of the files, one behind the other, each with its activation.
func TestDense(t *testing.T) {
	const relu = `{"in_features":2,"out_features":3,"bias":false,"activation_function":"torch.nn.modules.activation.ReLU"}`
	for activation, want := range map[string]float64{
		`,"activation_function":"torch.nn.modules.linear.Identity"`: 0.5, "": math.Tanh(0.5), `,"activation_function":"torch.nn.modules.activation.Sigmoid"`: 1 / (1 + math.Exp(-0.5)),
		`,"activation_function":"torch.nn.modules.activation.GELU"`: 0.345731230635,
	} {
		m, err := Open(denseFiles(t, relu, `{"in_features":3,"out_features":2`+activation+`}`), "m", Overrides{})
		if err != nil {
			t.Fatal(err)
		}
		got := m.Dense.Apply([]float32{-2, 0.5})
		if m.Width != 2 || !m.Normalize || len(got) != 2 || math.Abs(float64(got[0])-want) > 1e-6 {
			t.Errorf("%s: %v, want %v; %+v", activation, got, want, m)
		}
	}
	for want, second := range map[string]string{
		"takes vectors of 2 numbers to 2, got vectors of 3": `{"in_features":2,"out_features":2}`, "unsupported activation_function": `{"in_features":3,"out_features":2,"activation_function":"x.Swish"}`,
		"a residual connection": `{"in_features":3,"out_features":2,"use_residual":true}`, `"token_embeddings"`: `{"in_features":3,"out_features":2,"module_input_name":"token_embeddings"}`,
		"linear.weight": `{"in_features":3,"out_features":4}`, "takes vectors of 3 numbers to 0": `{"in_features":3}`,
	} {
		if m, err := Open(denseFiles(t, relu, second), "m", Overrides{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %s", second, m, err, want)
		}
	}
	for want, change := range map[string][2]string{
		"after Normalize": {`"path":"","type":"sentence_transformers.models.Transformer`, `"path":"","type":"sentence_transformers.models.Normalize`},
		"outside":         {"3_Dense", "../x"}, "missing 5_Dense/config.json": {"3_Dense", "5_Dense"}, "several modules of type": {"models.Dense", "models.Pooling"},
	} {
		dir := denseFiles(t, relu, `{"in_features":3,"out_features":2}`)
		writeFiles(t, dir, map[string]string{"modules.json": strings.Replace(denseModules, change[0], change[1], 1)})
		if m, err := Open(dir, "m", Overrides{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v, %v; want %s", m, err, want)
		}
	}
	dir := files(t, "m", map[string]string{"config.json": `{"hidden_size":2}`, "modules.json": denseModules, "1_Pooling/config.json": `{"pooling_mode":"cls"}`, "2_Dense/config.json": relu})
	if _, err := Open(dir, "m", Overrides{}); err == nil || !strings.Contains(err.Error(), "save_pretrained") {
		t.Errorf("no weights: %v", err)
	}
}
