package plan_test

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/golden"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx"
	"github.com/prefillonly/prefillonly/engine/dnn/plan"
	"github.com/prefillonly/prefillonly/engine/dnn/specialize"
)

// TestSameBits: a frame's outputs have the same bits alone, as one of three, in a second pass, and however a pass is
// divided into steps.
func TestSameBits(t *testing.T) {
	const frames = 3
	for _, file := range []string{"yolox_nano_416", "face_rfb_320"} {
		c := golden.Case{Model: file}
		m, err := onnx.Open(c.Path(t))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		in := m.Graph.Inputs[0]
		w := &writer{random: rand.New(rand.NewPCG(3, 4))}
		batch := w.tensor(engine.FP32, append([]int{frames}, in.Shape[1:]...)...)
		size := len(batch.Data) / frames
		list := backends(t)
		b := list[len(list)-1]
		outputs := func(frames int, data []byte, step time.Duration) []*graph.Tensor {
			shape := append([]int{frames}, in.Shape[1:]...)
			g, err := specialize.Run(m.Graph, map[string][]int{in.Name: shape})
			if err != nil {
				t.Fatal(err)
			}
			p, err := bind(b, g, plan.Options{Step: step})
			if err != nil {
				t.Fatal(err)
			}
			inputs := map[string]*graph.Tensor{in.Name: {Type: engine.FP32, Shape: shape, Data: data}}
			first, err := p.pass(inputs)
			if err != nil {
				t.Fatal(err)
			}
			second, err := p.pass(inputs)
			if err != nil {
				t.Fatal(err)
			}
			for i := range first {
				if !bytes.Equal(first[i].Data, second[i].Data) {
					t.Errorf("%s: output %d has other bits in a second pass", file, i)
				}
			}
			return first
		}
		together := outputs(frames, batch.Data, 0)
		for frame := range frames {
			for _, step := range []time.Duration{0, 20 * time.Microsecond} {
				alone := outputs(1, batch.Data[frame*size:(frame+1)*size], step)
				for i, out := range alone {
					if n := len(out.Data); !bytes.Equal(out.Data, together[i].Data[frame*n:(frame+1)*n]) {
						t.Errorf("%s: output %d of frame %d has other bits alone, in steps of %v", file, i, frame, step)
					}
				}
			}
		}
	}
}
