package onnx

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	. "github.com/prefillonly/prefillonly/engine/dnn/onnx/onnxtest"
)

// floats draws elements that 32 bits hold.
func floats(rng *rand.Rand, n int) (list []float64) {
	for range n {
		list = append(list, float64(float32(rng.NormFloat64())))
	}
	return list
}

func rawFloats(elements []float64) (b []byte) {
	for _, x := range elements {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x)))
	}
	return b
}

// drawConstants is a graph that adds constants of all kinds of storage to its input, with the elements that choose gives.
func drawConstants(count int, choose func(i, n int) []float64) Graph {
	g := Graph{Inputs: []Value{x}, Outputs: []Value{{Name: fmt.Sprint("v", count-1), Type: Float32}}}
	before := "x"
	for i := range count {
		name, out, n := fmt.Sprint("c", i), fmt.Sprint("v", i), 1+i%7
		t := Tensor{Name: name, Type: Float32, Dims: []int{n, 1}}
		switch i % 3 {
		case 0:
			t.Raw = rawFloats(choose(i, n))
			g.Constants = append(g.Constants, t)
		case 1:
			t.Floats = choose(i, n)
			g.Constants = append(g.Constants, t)
		case 2:
			t.Name, t.Raw = "", rawFloats(choose(i, n))
			g.Nodes = append(g.Nodes, Node{Op: "Constant", Out: []string{name}, Attrs: map[string]any{"value": t}})
		}
		g.Nodes = append(g.Nodes, Node{Op: "Add", In: []string{before, name}, Out: []string{out}})
		before = out
	}
	return g
}

// TestPatchEqualsWritingAnew: a patched file is, byte for byte, the file that has the other elements from the beginning.
func TestPatchEqualsWritingAnew(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		count := 1 + rng.IntN(12)
		old, changed := map[int][]float64{}, map[string][]float32{}
		file := File(13, drawConstants(count, func(i, n int) []float64 {
			old[i] = floats(rng, n)
			return old[i]
		}))
		want := File(13, drawConstants(count, func(i, n int) []float64 {
			if rng.IntN(2) == 0 {
				return old[i]
			}
			list := floats(rng, n)
			for _, x := range list {
				changed[fmt.Sprint("c", i)] = append(changed[fmt.Sprint("c", i)], float32(x))
			}
			return list
		}))
		if err := Patch(file, changed); err != nil || !bytes.Equal(file, want) {
			t.Fatalf("seed %d: %v, or the file differs from the one written anew", seed, err)
		}
	}
}

// unpacked is a model of one constant of two elements, each in a field of its own, or two and one in fields of several.
func unpacked(parts ...int) []byte {
	var tensor, graph []byte
	tensor = protowire.AppendVarint(protowire.AppendTag(tensor, 2, protowire.VarintType), Float32)
	tensor = protowire.AppendString(protowire.AppendTag(tensor, 8, protowire.BytesType), "c")
	dims := 0
	for _, n := range parts {
		dims += max(n, 1)
		if n == 0 {
			tensor = protowire.AppendFixed32(protowire.AppendTag(tensor, 4, protowire.Fixed32Type), 7)
			continue
		}
		tensor = protowire.AppendBytes(protowire.AppendTag(tensor, 4, protowire.BytesType), make([]byte, 4*n))
	}
	tensor = protowire.AppendVarint(protowire.AppendTag(tensor, 1, protowire.VarintType), uint64(dims))
	graph = protowire.AppendBytes(protowire.AppendTag(graph, 5, protowire.BytesType), tensor)
	rest := File(13, Graph{Nodes: []Node{{Op: "Add", In: []string{"x", "c"}, Out: []string{"y"}}}, Inputs: []Value{x}, Outputs: []Value{y}})
	// The graph of the file is its last field: what comes behind belongs to it when its length says so.
	body := rest[bytes.Index(rest, []byte{7<<3 | 2}):]
	_, _, n := protowire.ConsumeTag(body)
	inner, _ := protowire.ConsumeBytes(body[n:])
	graph = append(slices.Clone(inner), graph...)
	return protowire.AppendBytes(protowire.AppendTag(rest[:len(rest)-len(body)], 7, protowire.BytesType), graph)
}

// constantsOf are the FLOAT constants that nodes of a model's graph read, by name.
func constantsOf(m *Model) map[string][]float32 {
	found := map[string][]float32{}
	for _, n := range m.Graph.Nodes {
		for _, v := range n.In {
			if v == nil || v.Const == nil || v.Const.Type.String() != "FP32" {
				continue
			}
			elements := []float32{}
			for b := v.Const.Data; len(b) > 0; b = b[4:] {
				elements = append(elements, math.Float32frombits(binary.LittleEndian.Uint32(b)))
			}
			found[v.Name] = elements
		}
	}
	return found
}

// checkPatch gives all constants of a file that is read other elements, one after the other: reading gives them, the others are as they were, and the old
// ones given back give the old file.
func checkPatch(t *testing.T, data []byte) {
	m, err := Parse(data)
	if err != nil {
		return
	}
	for name, old := range constantsOf(m) {
		other := slices.Clone(old)
		for i := range other {
			other[i] = float32(i) + .5
		}
		file := bytes.Clone(data)
		if Patch(file, map[string][]float32{name: other}) != nil {
			continue // it is made by lifting an operation
		}
		again, err := Parse(file)
		if err != nil {
			t.Fatalf("patched %q: %v", name, err)
		}
		for n, elements := range constantsOf(again) {
			want := constantsOf(m)[n]
			if n == name {
				want = other
			}
			if !slices.EqualFunc(elements, want, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
				t.Fatalf("patched %q: %q has the elements %v, want %v", name, n, elements, want)
			}
		}
		if err := Patch(file, map[string][]float32{name: old}); err != nil || !bytes.Equal(file, data) {
			t.Fatalf("%q patched back: %v, or the file is not as it was", name, err)
		}
	}
}

func TestPatchElementsInSeveralFields(t *testing.T) {
	for _, parts := range [][]int{{0, 0}, {2}, {1, 0, 3}, {0, 2, 1}} {
		file := unpacked(parts...)
		m, err := Parse(file)
		if err != nil || len(constantsOf(m)) != 1 {
			t.Fatalf("%v: %v", parts, err)
		}
		if err := Patch(bytes.Clone(file), constantsOf(m)); err != nil {
			t.Errorf("%v: %v", parts, err)
		}
		checkPatch(t, file)
	}
}

// TestPatchRefuses what it cannot overwrite, by the constant's name, and leaves the file.
func TestPatchRefuses(t *testing.T) {
	with := func(c Tensor) []byte { return File(13, withConstant(c)) }
	one := []float32{1}
	for name, c := range map[string]struct {
		file []byte
		to   map[string][]float32
		want string
	}{
		"another name": {with(Floats("c", []int{1}, 2)), map[string][]float32{"c": one, "d": one}, `constant "d" is not in the file`},
		"another size": {with(Floats("c", []int{1}, 2)), map[string][]float32{"c": {1, 2}}, `constant "c": got 2 elements, want 1`},
		"integers":     {with(Tensor{Name: "c", Type: Int64, Dims: []int{1}, Ints: []int{1}}), map[string][]float32{"c": one}, `constant "c": elements are INT64`},
		"half":         {with(Tensor{Name: "c", Type: Float16, Dims: []int{1}, Raw: []byte{0, 0}}), map[string][]float32{"c": one}, `constant "c": elements are FP16`},
		"elsewhere":    {with(Tensor{Name: "c", Type: Float32, Dims: []int{1}, External: map[string]string{"location": "w.bin"}}), map[string][]float32{"c": one}, `another file, "w.bin"`},
		"odd":          {with(Tensor{Name: "c", Type: Float32, Dims: []int{1}, Raw: []byte{0, 0, 0}}), map[string][]float32{"c": {}}, `got 3 bytes`},
		"no file":      {[]byte("no file"), map[string][]float32{"c": one}, "not an ONNX file"},
		"nothing":      {nil, map[string][]float32{"c": one}, `constant "c" is not in the file`},
	} {
		before := bytes.Clone(c.file)
		if err := Patch(c.file, c.to); err == nil || !strings.Contains(err.Error(), c.want) || !bytes.Equal(before, c.file) {
			t.Errorf("%s: got %v, want %q, and the file left", name, err, c.want)
		}
	}
}

func FuzzPatch(f *testing.F) {
	f.Add(File(13, drawConstants(7, func(_, n int) []float64 { return make([]float64, n) })))
	f.Add(unpacked(1, 0, 3))
	f.Add(File(13, Eye(1)))
	f.Fuzz(func(t *testing.T, data []byte) { checkPatch(t, data) })
}
