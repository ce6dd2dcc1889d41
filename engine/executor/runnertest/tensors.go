package runnertest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// Blobs is where a runner of tensors reads the bytes of inputs by name, and leaves those of outputs. The suite
// tests the tensors of runners that have it.
type Blobs interface {
	Put(data []byte) (blob string, err error)
	Read(blob string, dst []byte) error // a blob of that size
}

var tensors = kind{
	name: "tensors",
	work: func(s *subject, size, salt int) wire.ItemWork { return s.tensorItem(size, salt) },
	bad:  (*subject).badTensors,
	tests: []test{
		{"wanted outputs", testOutputs},
	},
}

var gradients = kind{
	name: "gradients",
	work: func(s *subject, size, salt int) wire.ItemWork { return s.gradientItem(size, salt) },
	bad:  (*subject).badGradients,
	tests: []test{
		{"finite differences", testDifferences},
	},
}

// tensor is a tensor by value.
type tensor struct {
	name  string
	dtype engine.DType
	shape []int
	bytes string
}

func (s *subject) byValue(ref engine.Ref) tensor {
	return tensor{ref.Name, ref.Type, ref.Shape, string(s.bytesOf(ref))}
}

func (s *subject) bytesOf(ref engine.Ref) []byte {
	s.Helper()
	n, ok := ref.Bytes()
	if !ok {
		s.Fatalf("tensor %+v has no size", ref)
	}
	raw := make([]byte, n)
	if err := s.r.(Blobs).Read(ref.Blob, raw); err != nil {
		s.Fatalf("tensor %+v: %v", ref, err)
	}
	return raw
}

// putTensor makes a tensor of float32.
func (s *subject) putTensor(name string, shape []int, values []float32) engine.Ref {
	s.Helper()
	blob, err := s.r.(Blobs).Put(encodeFloats(values))
	if err != nil {
		s.Fatal(err)
	}
	return engine.Ref{Name: name, Type: engine.FP32, Shape: shape, Blob: blob}
}

// randomTensors makes tensors of a spec with a batch, whose other free dimensions are 8, of values that differ with
// salt.
func (s *subject) randomTensors(specs []wire.TensorSpec, batch, salt int) (refs []engine.Ref) {
	for i, spec := range specs {
		if spec.Type != engine.FP32 {
			s.Fatalf("%s is %v; the suite makes %v alone", spec.Name, spec.Type, engine.FP32)
		}
		shape := slices.Clone(spec.Shape)
		elements := 1
		for d, n := range shape {
			if n < 0 && d == 0 {
				shape[d] = batch
			} else if n < 0 {
				shape[d] = 8
			}
			elements *= shape[d]
		}
		random := rand.New(rand.NewPCG(uint64(salt), uint64(i)))
		values := make([]float32, elements)
		for i := range values {
			values[i] = float32(random.NormFloat64())
		}
		refs = append(refs, s.putTensor(spec.Name, shape, values))
	}
	return refs
}

// batchOf is the frames of an item of a size.
func batchOf(size int) int { return 1 + size/20 }

func (s *subject) tensorItem(size, salt int) *wire.TensorItem {
	batch := batchOf(size)
	return &wire.TensorItem{Tensors: engine.Tensors{Inputs: s.randomTensors(s.model.Tensors.Inputs, batch, salt), Frames: float64(batch)}}
}

// gradientItem asks for that of the first output, with respect to all inputs, and for the output.
func (s *subject) gradientItem(size, salt int) *wire.TensorItem {
	it := s.tensorItem(size, salt)
	out := s.model.Tensors.Outputs[0]
	it.Outputs = []string{out.Name}
	it.Grad = &engine.Grad{Seeds: s.randomTensors([]wire.TensorSpec{out}, batchOf(size), salt+1000)}
	for _, in := range it.Inputs {
		it.Grad.Inputs = append(it.Grad.Inputs, in.Name)
	}
	it.Frames *= 1 + s.model.Tensors.Backward
	return it
}

// runTensors runs an item, to its tensors.
func (s *subject) runTensors(it *wire.TensorItem) []tensor {
	s.Helper()
	return s.run(wire.RunItem{Job: 1, Work: it})[0].output.([]tensor)
}

// testOutputs asks for outputs one by one, and for all of them without names.
func testOutputs(s *subject) {
	it := s.tensorItem(30, 1)
	all := s.runTensors(it)
	specs := s.model.Tensors.Outputs
	if len(all) != len(specs) {
		s.Fatalf("%d outputs, the model has %d", len(all), len(specs))
	}
	for i := len(specs) - 1; i >= 0; i-- {
		spec := specs[i]
		it.Outputs = []string{spec.Name}
		one := s.runTensors(it)
		if len(one) != 1 || fmt.Sprint(one[0]) != fmt.Sprint(all[i]) || one[0].name != spec.Name || !fitsSpec(one[0].shape, spec.Shape) {
			s.Errorf("output %s alone is %+v, among all %+v", spec.Name, one, all[i])
		}
	}
}

func fitsSpec(shape, spec []int) bool {
	return slices.EqualFunc(shape, spec, func(n, want int) bool { return n == want || want < 0 && n > 0 })
}

// testDifferences compares the gradient along random ways with differences of what it is the gradient of.
func testDifferences(s *subject) {
	it := s.gradientItem(30, 1)
	found := s.runTensors(it)
	seed := s.valuesOf(it.Grad.Seeds[0])
	at := func(inputs []engine.Ref) float64 {
		moved := &wire.TensorItem{Tensors: engine.Tensors{Inputs: inputs, Outputs: it.Outputs, Frames: it.Frames}}
		return dot(decodeFloats([]byte(s.runTensors(moved)[0].bytes)), seed)
	}
	for salt := range 5 {
		const step = 1e-2
		var further, back []engine.Ref
		slope := 0.0
		for i, ref := range it.Inputs {
			way := s.valuesOf(s.randomTensors([]wire.TensorSpec{{Name: "way", Type: engine.FP32, Shape: ref.Shape}}, 0, 2000+salt)[0])
			further = append(further, s.moved(ref, way, step))
			back = append(back, s.moved(ref, way, -step))
			slope += dot(decodeFloats([]byte(found[1+i].bytes)), way)
		}
		if difference := (at(further) - at(back)) / (2 * step); math.Abs(difference-slope) > 1e-2*(1+math.Abs(slope)) {
			s.Errorf("along way %d the gradient is %v, the difference %v", salt, slope, difference)
		}
	}
}

func (s *subject) valuesOf(ref engine.Ref) []float32 { return decodeFloats(s.bytesOf(ref)) }

// moved is a tensor some steps along a way.
func (s *subject) moved(ref engine.Ref, way []float32, steps float32) engine.Ref {
	values := s.valuesOf(ref)
	for i := range values {
		values[i] += steps * way[i]
	}
	return s.putTensor(ref.Name, ref.Shape, values)
}

func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// badTensors are items that are not within the limits, with the figures or names that the refusal tells.
func (s *subject) badTensors() map[string]bad {
	change := func(f func(in *engine.Ref)) *wire.TensorItem {
		it := s.tensorItem(1, 1)
		in := &it.Inputs[0]
		in.Shape = slices.Clone(in.Shape)
		f(in)
		return it
	}
	missing, unknown := s.tensorItem(1, 1), s.tensorItem(1, 1)
	missing.Inputs = missing.Inputs[1:]
	unknown.Outputs = []string{"no such output"}
	in := s.model.Tensors.Inputs[0]
	columns := in.Shape[len(in.Shape)-1]
	return map[string]bad{
		"a tensor missing":     {missing, []string{in.Name}},
		"another name":         {change(func(in *engine.Ref) { in.Name = "no such input" }), []string{"no such input"}},
		"another shape":        {change(func(in *engine.Ref) { in.Shape[len(in.Shape)-1]++ }), []string{in.Name, fmt.Sprint(columns), fmt.Sprint(columns + 1)}},
		"another type":         {change(func(in *engine.Ref) { in.Type = engine.Int8 }), []string{in.Name, "INT8"}},
		"no bytes":             {change(func(in *engine.Ref) { in.Blob = "no such blob" }), []string{in.Name, "blob"}},
		"no such output":       {unknown, []string{"no such output"}},
		"tokens and no tensor": {&wire.TokenItem{Tokens: []engine.TokenID{1}}, []string{"TokenItem"}},
	}
}

// badGradients are items that ask for what is no gradient of the model.
func (s *subject) badGradients() map[string]bad {
	unknown, unseeded, other := s.gradientItem(1, 1), s.gradientItem(1, 1), s.gradientItem(1, 1)
	unknown.Grad.Inputs = []string{"no such input"}
	unseeded.Grad.Seeds = nil
	seed := &other.Grad.Seeds[0]
	seed.Shape = slices.Clone(seed.Shape)
	seed.Shape[len(seed.Shape)-1]++
	return map[string]bad{
		"no such input":  {unknown, []string{"no such input"}},
		"no seed":        {unseeded, []string{s.model.Tensors.Outputs[0].Name}},
		"another's seed": {other, []string{seed.Name, fmt.Sprint(seed.Shape[len(seed.Shape)-1])}},
	}
}
