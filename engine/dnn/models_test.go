package dnn

import (
	"errors"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/golden"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels"
	"github.com/prefillonly/prefillonly/kernels/cpu"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// mostInReference is how many elements of input are computed by the reference, within seconds.
const mostInReference = 1 << 20

// TestModelsEqualONNXRuntime runs real networks as jobs, on the reference and on the processor's kernels: for one frame
// and for three, and at another size than the file's where there is one.
func TestModelsEqualONNXRuntime(t *testing.T) {
	backends := map[string]kernels.Backend{"ref": ref.New()}
	b, err := cpu.New(cpu.Config{Threads: 2})
	if err != nil {
		t.Logf("without the processor's kernels: %v", err)
	} else {
		backends["cpu"] = b
	}
	large := golden.Architectures(t)
	if len(large) == 0 {
		t.Log("without classifiers of random weights: tools/golden/onnx_golden.py --architectures makes them")
	}
	for name, b := range backends {
		t.Run(name, func(t *testing.T) {
			defer b.Close()
			cases := golden.Cases(t)
			if name != "ref" {
				cases = append(cases, large...)
			}
			for _, c := range cases {
				t.Run(c.Name(), func(t *testing.T) {
					if n := graph.Elements(c.Inputs[0].Shape); name == "ref" && n > mostInReference {
						t.Skipf("%d elements of input are too many for the reference", n)
					}
					equalONNXRuntime(t, store.New(b), c)
				})
			}
		})
	}
}

func equalONNXRuntime(t *testing.T, st *store.Store, c golden.Case) {
	first := c.Inputs[0].Shape
	height, width := 0, 0
	if len(first) == 4 && first[1] == 3 {
		height, width = first[2], first[3]
	}
	b := blobs{}
	n := read(t, c.Path(t), Options{Height: height, Width: width, WorkBytes: 1 << 30})
	m, err := Open(n, st, b)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	w, err := NewWorkspace(st.Backend(), m.WorkBytes())
	if err == nil {
		defer w.Free()
		err = m.Use(w)
	}
	for i := range m.Chunks() {
		err = errors.Join(err, m.LoadChunk(i))
	}
	if err != nil {
		t.Fatal(err)
	}
	outputs := tensorsOf(t, m, b, c.Inputs, c.Tensors())
	for i, o := range c.Outputs {
		if err := o.Compare(outputs[i]); err != nil {
			t.Error(err)
		}
	}
	if first[0] == 3 && len(c.Inputs) == 1 {
		for f := range first[0] {
			for i, alone := range tensorsOf(t, m, b, c.Inputs, frameOf(c.Tensors(), f)) {
				if part := len(alone.Data); !slices.Equal(alone.Data, outputs[i].Data[f*part:(f+1)*part]) {
					t.Errorf("output %q of frame %d has other bits than beside others", c.Outputs[i].Name, f)
				}
			}
		}
	}
}

// frameOf is one of three frames.
func frameOf(inputs map[string]*graph.Tensor, f int) map[string]*graph.Tensor {
	one := map[string]*graph.Tensor{}
	for name, x := range inputs {
		part := len(x.Data) / 3
		one[name] = &graph.Tensor{Type: x.Type, Shape: append([]int{1}, x.Shape[1:]...), Data: x.Data[f*part : (f+1)*part]}
	}
	return one
}

// tensorsOf runs a job and returns its outputs.
func tensorsOf(t *testing.T, m *Model, b blobs, order []golden.Input, inputs map[string]*graph.Tensor) (out []*graph.Tensor) {
	t.Helper()
	item := wire.TensorItem{Tensors: engine.Tensors{Frames: 1}}
	for _, in := range order {
		x := inputs[in.Name]
		r := engine.Ref{Name: in.Name, Type: x.Type, Shape: x.Shape}
		r.Blob, _ = b.Put(x.Data)
		item.Inputs = append(item.Inputs, r)
	}
	result := results(t, m, wire.RunItem{Work: &item})[0]
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	for _, r := range result.Output.(*engine.TensorOutput).Outputs {
		out = append(out, &graph.Tensor{Type: r.Type, Shape: r.Shape, Data: b[r.Blob]})
	}
	return out
}
