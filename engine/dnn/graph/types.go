package graph

import "github.com/prefillonly/prefillonly/engine"

// elementTypes are the element types by ONNX's numbers (TensorProto.DataType), as attributes have them.
var elementTypes = map[int64]engine.DType{
	1: engine.FP32, 2: engine.Uint8, 3: engine.Int8, 4: engine.Uint16, 5: engine.Int16, 6: engine.Int32, 7: engine.Int64,
	9: engine.Bool, 10: engine.FP16, 11: engine.FP64, 12: engine.Uint32, 13: engine.Uint64, 16: engine.BF16,
}

// ElementType is the element type that has this number in ONNX, in attributes such as Cast's "to"; ok is false
// of those that tensors here cannot have.
func ElementType(number int64) (t engine.DType, ok bool) {
	t, ok = elementTypes[number]
	return t, ok
}
