//go:build cgo

package direct

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kernels/cpu"
)

// TestSplit: both parts of a detector, one after the other, compute what it does, bit for bit. The log says what gradients take, to the picture and to features.
func TestSplit(t *testing.T) {
	dir := os.Getenv("PREFILLONLY_DATA")
	if dir == "" {
		dir = "../../../../shared/data"
	}
	file := filepath.Join(dir, "models", "light_person_192.onnx")
	if _, err := os.Stat(file); err != nil {
		t.Skipf("no network to split: %v", err)
	}
	backend, err := cpu.New(cpu.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	whole, err := dnn.Read(file, dnn.Options{Height: 96, Width: 160})
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	points, err := whole.SplitPoints()
	if err != nil {
		t.Fatal(err)
	}
	var at wire.TensorSpec
	for _, p := range points {
		if len(p.Shape) == 4 {
			at = p
		}
	}
	if len(at.Shape) != 4 || at.Shape[2] != 12 || at.Shape[3] != 20 {
		t.Fatalf("the last map that all goes through is %v of %v; one of stride 8 is to be", at, points)
	}
	front, back, err := whole.Split(at.Name)
	if err != nil {
		t.Fatal(err)
	}
	open := func(n *dnn.Network) *Network {
		opened, err := New(n, backend)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(opened.Close)
		return opened
	}
	all, first, second := open(whole), open(front), open(back)
	shape, values := []int{1, 3, 96, 160}, make([]float32, 3*96*160)
	for i := range values {
		values[i] = float32(i*7919%256) * float32(i%160) / 160
	}
	run := func(n *Network, shape []int, values []float32) Output {
		out, err := n.Run(shape, littleEndian(values))
		if err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	want, features := run(all, shape, values), run(first, shape, values)
	got := run(second, features.Shape, features.Data)
	for i, w := range want.Data {
		if got.Data[i] != w {
			t.Fatalf("value %d is %v by the whole network, and %v by its parts", i, w, got.Data[i])
		}
	}
	seed := Output{want.Name, want.Shape, make([]float32, len(want.Data))}
	for i := range seed.Data {
		seed.Data[i] = float32(i%6) / 6
	}
	gradient := func(n *Network, shape []int, values []float32) (d []float32, least time.Duration) {
		for range 5 {
			began := time.Now()
			if d, err = n.Gradient(shape, littleEndian(values), []Output{seed}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); least == 0 || took < least {
				least = took
			}
		}
		return d, least
	}
	_, long := gradient(all, shape, values)
	slopes, short := gradient(second, features.Shape, features.Data)
	if len(slopes) != len(features.Data) {
		t.Errorf("%d derivatives of %d features", len(slopes), len(features.Data))
	}
	t.Logf("gradients: to the picture in %v, to %v features in %v", long, features.Shape, short)
}

func littleEndian(values []float32) []byte {
	data := make([]byte, 4*len(values))
	for i, v := range values {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v))
	}
	return data
}
