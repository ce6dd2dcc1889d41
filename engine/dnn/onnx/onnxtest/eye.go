package onnxtest

// Eye is a network of pictures of size times 16 x 24 pixels that finds one small thing in each, whose score is the picture's mean red, as the decoder
// ssd reads it. A large size makes it slow.
func Eye(size int) Graph {
	return Graph{
		Inputs: []Value{{Name: "x", Type: Float32, Dims: []any{1, 3, size * 16, size * 24}}},
		Outputs: []Value{
			{Name: "scores", Type: Float32, Dims: []any{1, 1, 2}}, {Name: "boxes", Type: Float32, Dims: []any{1, 1, 4}},
		},
		Constants: []Tensor{
			Ints("flat", 1, 3), Ints("two", 1, 1, 2), Ints("four", 1, 1, 4),
			Floats("red", []int{3, 2}, 0, 1, 0, 0, 0, 0),
			Floats("none", []int{3, 4}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
			Floats("place", []int{1, 4}, 0.25, 0.25, 0.375, 0.375),
		},
		Nodes: []Node{
			{Op: "GlobalAveragePool", In: []string{"x"}, Out: []string{"mean"}},
			{Op: "Reshape", In: []string{"mean", "flat"}, Out: []string{"rgb"}},
			{Op: "MatMul", In: []string{"rgb", "red"}, Out: []string{"s"}},
			{Op: "Reshape", In: []string{"s", "two"}, Out: []string{"scores"}},
			{Op: "MatMul", In: []string{"rgb", "none"}, Out: []string{"nothing"}},
			{Op: "Add", In: []string{"nothing", "place"}, Out: []string{"b"}},
			{Op: "Reshape", In: []string{"b", "four"}, Out: []string{"boxes"}},
		},
	}
}
