// Package dnntest reads ONNX's own tests of operations, which its Python package carries: models of a node or a few,
// with inputs and the outputs that they have.
package dnntest

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
)

// Case is a test: of the model, by its directory's name.
type Case struct {
	Name string
	path string
}

// Set is inputs of a model, in the order of its graph, and its outputs.
type Set struct{ In, Out []*graph.Tensor }

// Cases are all tests in the directory below the repository's root that tools/golden/onnx_node_tests.sh fills. The test is
// skipped where it is not there.
func Cases(t testing.TB, root string) []Case {
	t.Helper()
	dir := filepath.Join(root, "build", "onnx_node_tests")
	paths, err := filepath.Glob(filepath.Join(dir, "*", "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Skipf("ONNX's tests are not in %s: run tools/golden/onnx_node_tests.sh", dir)
	}
	cases := make([]Case, len(paths))
	for i, p := range paths {
		cases[i] = Case{strings.TrimPrefix(filepath.Base(filepath.Dir(p)), "test_"), filepath.Dir(p)}
	}
	return cases
}

// Ops are the operations of the model's nodes, those of other domains than ONNX's own as "domain::operation". Unlike
// Open it reads any model.
func (c Case) Ops() ([]string, error) {
	data, err := os.ReadFile(filepath.Join(c.path, "model.onnx"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, g := range findFields(data, 7) {
		for _, n := range findFields(g, 1) {
			name := string(slices.Concat(findFields(n, 4)...))
			if domain := string(slices.Concat(findFields(n, 7)...)); domain != "" && domain != "ai.onnx" {
				name = domain + "::" + name
			}
			names = append(names, name)
		}
	}
	return names, nil
}

// findFields are those of a protobuf message that have this number and are of bytes.
func findFields(message []byte, number uint64) (out [][]byte) {
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		value, m := uint64(0), 0
		switch tag & 7 {
		case 0, 2:
			value, m = binary.Uvarint(message[max(n, 0):])
		case 1:
			m = 8
		case 5:
			m = 4
		}
		from, size := n+m, uint64(0)
		if tag&7 == 2 {
			size = value
		}
		if n <= 0 || m <= 0 || from > len(message) || size > uint64(len(message)-from) {
			return out
		}
		if tag == number<<3|2 {
			out = append(out, message[from:from+int(size)])
		}
		message = message[from+int(size):]
	}
	return out
}

// Open reads the model. It is closed by whoever opened it.
func (c Case) Open() (*onnx.Model, error) { return onnx.Open(filepath.Join(c.path, "model.onnx")) }

// Sets are inputs and outputs of the model.
func (c Case) Sets(m *onnx.Model) ([]Set, error) {
	var sets []Set
	for i := 0; ; i++ {
		dir := filepath.Join(c.path, fmt.Sprintf("test_data_set_%d", i))
		if _, err := os.Stat(dir); err != nil {
			return sets, nil
		}
		in, err := readTensors(dir, "input", m.Graph.Inputs)
		if err != nil {
			return nil, err
		}
		out, err := readTensors(dir, "output", m.Graph.Outputs)
		if err != nil {
			return nil, err
		}
		sets = append(sets, Set{in, out})
	}
}

// readTensors reads the files KIND_0.pb and so on, one for each value. The files have UINT16 for BF16.
func readTensors(dir, kind string, values []*graph.Value) ([]*graph.Tensor, error) {
	out := make([]*graph.Tensor, len(values))
	for i, v := range values {
		path := filepath.Join(dir, fmt.Sprintf("%s_%d.pb", kind, i))
		data, err := os.ReadFile(path)
		if err == nil {
			out[i], err = readTensor(data)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if v.Type == engine.BF16 && out[i].Type == engine.Uint16 {
			out[i].Type = engine.BF16
		}
	}
	return out, nil
}

// readTensor reads an encoded TensorProto: as a constant of a model that has nothing else. The last name of a tensor is
// its name.
func readTensor(data []byte) (*graph.Tensor, error) {
	named := slices.Concat(data, encodeField(8, []byte("t")))
	output := encodeField(1, []byte("t"))
	g := slices.Concat(encodeField(5, named), encodeField(12, output))
	model := slices.Concat(encodeField(7, g), encodeField(8, []byte{2 << 3, 21}))
	m, err := onnx.Parse(model)
	if err != nil {
		return nil, err
	}
	return m.Graph.Outputs[0].Const, nil
}

// encodeField is a protobuf field of bytes.
func encodeField(number int, data []byte) []byte {
	return slices.Concat(binary.AppendUvarint(nil, uint64(number<<3|2)), binary.AppendUvarint(nil, uint64(len(data))), data)
}
