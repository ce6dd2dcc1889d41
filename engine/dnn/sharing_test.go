package dnn

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
	"github.com/prefillonly/prefillonly/engine/weights/store"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels/ref"
)

// stacked is three convolutions over pictures, of which the second is large, each with a bias and a BatchNormalization: all are
// equal but for what differs with bias and norm.
func stacked(bias, norm float64) onnxtest.Graph {
	g := onnxtest.Graph{
		Inputs:  []onnxtest.Value{{Name: "image", Type: onnxtest.Float32, Dims: []any{1, 3, 6, 6}}},
		Outputs: []onnxtest.Value{{Name: "y3", Type: onnxtest.Float32, Dims: []any{1, 8, 6, 6}}},
	}
	numbers := func(name string, salt float64, low float64, shape ...int) {
		n := 1
		for _, d := range shape {
			n *= d
		}
		values := make([]float64, n)
		for i := range values {
			values[i] = low + math.Sin(salt+float64(i))/math.Sqrt(float64(shape[len(shape)-1]*9))
		}
		g.Constants = append(g.Constants, onnxtest.Floats(name, shape, values...))
	}
	channels := []int{3, 64, 64, 8}
	x := "image"
	for i := 1; i <= 3; i++ {
		of := func(name string) string { return fmt.Sprint(name, i) }
		numbers(of("w"), float64(i), 0, channels[i], channels[i-1], 3, 3)
		numbers(of("b"), bias+float64(i), 0, channels[i])
		for j, name := range []string{"scale", "shift", "mean", "variance"} {
			numbers(of(name), norm+float64(i+3*j), 1.5, channels[i])
		}
		g.Nodes = append(g.Nodes,
			onnxtest.Node{Op: "Conv", In: []string{x, of("w"), of("b")}, Out: []string{of("c")}, Attrs: map[string]any{"pads": []int{1, 1, 1, 1}}},
			onnxtest.Node{Op: "BatchNormalization", In: []string{of("c"), of("scale"), of("shift"), of("mean"), of("variance")}, Out: []string{of("n")}},
			onnxtest.Node{Op: "Relu", In: []string{of("n")}, Out: []string{of("y")}})
		x = of("y")
	}
	return g
}

// filterBytes are those of the filters of stacked.
const filterBytes = 4 * 9 * (3*64 + 64*64 + 64*8)

// TestFiltersAreSharedWhereBiasesDiffer: of two networks, and of three, that differ in biases or normalisations alone the store
// has each filter once, and so do chunks by which a scheduler counts; each network's answer has the same bits alone, beside
// the others, and after it was dropped and loaded again; and the memory is free when the last is gone.
func TestFiltersAreSharedWhereBiasesDiffer(t *testing.T) {
	graphs := map[string]onnxtest.Graph{"plain": stacked(0, 0), "biased": stacked(5, 0), "normalised": stacked(0, 7)}
	alone := map[string][]byte{}
	answer := func(m *Model, b blobs) []byte {
		r := results(t, m, b.frame(0.3, 1, 3, 6, 6))[0]
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		return b[outputOf(r)]
	}
	var one int64
	for name, g := range graphs {
		st := store.New(ref.New())
		m, b := opened(t, st, g, Options{})
		alone[name], one = answer(m, b), st.Bytes()
	}
	if bytes.Equal(alone["plain"], alone["biased"]) || bytes.Equal(alone["plain"], alone["normalised"]) {
		t.Fatal("the networks answer alike")
	}
	st, counted := store.New(ref.New()), map[store.Key]int64{}
	models, all := map[string]*Model{}, map[string]blobs{}
	for n, name := range []string{"plain", "biased", "normalised"} {
		models[name], all[name] = opened(t, st, graphs[name], Options{})
		var used int64
		for _, c := range models[name].Chunks() {
			counted[c.Key] = c.Bytes
		}
		for _, bytes := range counted {
			used += bytes
		}
		affine := one - filterBytes
		held := filterBytes + []int64{affine, affine + affine/2, 2*affine + affine/2}[n] // a bias changes the shift alone
		if want := filterBytes + int64(n+1)*affine; st.Bytes() != held || used != want {
			t.Errorf("%d networks: %d bytes are held and %d counted, want %d and %d", n+1, st.Bytes(), used, held, want)
		}
	}
	for name, m := range models {
		if got := answer(m, all[name]); !bytes.Equal(got, alone[name]) {
			t.Errorf("%s answers otherwise beside the others", name)
		}
	}
	for name, m := range models {
		for i := range m.Chunks() {
			m.DropChunk(i)
		}
		for i := range m.Chunks() {
			if err := m.LoadChunk(i); err != nil {
				t.Fatal(err)
			}
		}
		if got := answer(m, all[name]); !bytes.Equal(got, alone[name]) {
			t.Errorf("%s answers otherwise after it was away", name)
		}
	}
	for _, m := range models {
		m.Close()
	}
	if st.Bytes() != 0 {
		t.Errorf("%d bytes are held when all are gone", st.Bytes())
	}
}

func outputOf(r wire.ItemResult) string {
	return r.Output.(*engine.TensorOutput).Outputs[0].Blob
}

// TestLargePartsAreChunksOfTheirOwn: a part of at least 16 KiB is a chunk by itself, and of the small ones filters are apart
// from others.
func TestLargePartsAreChunksOfTheirOwn(t *testing.T) {
	m, _ := opened(t, store.New(ref.New()), stacked(0, 0), Options{})
	var sizes []string
	for _, c := range m.Chunks() {
		sizes = append(sizes, fmt.Sprintf("%d of %d", len(c.Parts), c.Bytes))
	}
	want := fmt.Sprint([]string{"1 of 147456", "1 of 18432", "1 of 6912", fmt.Sprintf("6 of %d", 2*4*(64+64+8))})
	if fmt.Sprint(sizes) != want {
		t.Errorf("chunks of %v parts and bytes, want %v", sizes, want)
	}
}
