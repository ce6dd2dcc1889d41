package onnx

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// tensorProto is a tensor whose elements, unless they are raw, are read of the message when they are asked for.
type tensorProto struct {
	name     string
	dims     []int64
	typ      int64
	raw      []byte
	external map[string]string // nil: the data is here
	message  []byte
}

func (d *decoder) decodeTensor(b []byte, t *tensorProto) error {
	t.message = b
	outside := int64(0)
	var entries []*[2]string
	err := eachField(b, func(f field) error {
		switch f.number {
		case 1:
			return d.decodeInts(f, &t.dims)
		case 2:
			return f.readInt(&t.typ)
		case 8:
			return f.readText(&t.name)
		case 9:
			t.raw = f.bytes
			return f.checkType(protowire.BytesType)
		case 13:
			return appendMessage(d, f, &entries, keyAndValue)
		case 14:
			return f.readInt(&outside)
		}
		return nil
	})
	if outside == 1 {
		t.external = map[string]string{}
		for _, e := range entries {
			t.external[e[0]] = e[1]
		}
	}
	return err
}

func keyAndValue(b []byte, e *[2]string) error {
	return eachField(b, func(f field) error {
		switch f.number {
		case 1, 2:
			return f.readText(&e[f.number-1])
		}
		return nil
	})
}

// typeNames are element types that there are no tensors of here.
var typeNames = map[int64]string{
	0: "UNDEFINED", 8: "STRING", 14: "COMPLEX64", 15: "COMPLEX128", 17: "FLOAT8E4M3FN", 18: "FLOAT8E4M3FNUZ", 19: "FLOAT8E5M2",
	20: "FLOAT8E5M2FNUZ", 21: "UINT4", 22: "INT4", 23: "FLOAT4E2M1", 24: "FLOAT8E8M0", 25: "UINT2", 26: "INT2",
}

// elementType is the type of a number in the file, or an error that names it.
func elementType(number int64) (engine.DType, error) {
	if t, ok := graph.ElementType(number); ok {
		return t, nil
	}
	if name, ok := typeNames[number]; ok {
		return 0, fmt.Errorf("element type %s is not supported", name)
	}
	return 0, fmt.Errorf("invalid element type %d", number)
}

// smallBytes is up to which size constants are copied out of the file.
const smallBytes = 4096

// makeTensor makes a tensor of what the file says. Large ones are parts of the file.
func (m *Model) makeTensor(p *tensorProto) (*graph.Tensor, error) {
	typ, err := elementType(p.typ)
	if err != nil {
		return nil, err
	}
	t := &graph.Tensor{Type: typ, Shape: make([]int, len(p.dims))}
	for i, d := range p.dims {
		t.Shape[i] = int(d)
	}
	want, ok := (&engine.Ref{Type: typ, Shape: t.Shape}).Bytes()
	if !ok {
		return nil, fmt.Errorf("invalid shape %v", p.dims)
	}
	switch {
	case p.external != nil:
		t.Data, err = m.readExternal(p.external, want)
	case p.raw != nil:
		t.Data = p.raw
	default:
		t.Data, err = p.typedBytes(typ, want)
	}
	if err != nil {
		return nil, err
	}
	if len(t.Data) != want {
		return nil, fmt.Errorf("got %d bytes of data, shape %v of %v takes %d", len(t.Data), p.dims, typ, want)
	}
	if want <= smallBytes || typ == engine.Bool {
		t.Data = bytes.Clone(t.Data)
	}
	if typ == engine.Bool {
		for i, b := range t.Data {
			t.Data[i] = min(b, 1)
		}
	}
	return t, nil
}

// typedField is the field that holds elements of a type, and their wire type.
func typedField(t engine.DType) (protowire.Number, protowire.Type) {
	switch t {
	case engine.FP32:
		return 4, protowire.Fixed32Type
	case engine.FP64:
		return 10, protowire.Fixed64Type
	case engine.Int64:
		return 7, protowire.VarintType
	case engine.Uint32, engine.Uint64:
		return 11, protowire.VarintType
	}
	return 5, protowire.VarintType
}

var errTooMany = errors.New("too many elements")

// typedBytes reads the elements from the field of their type, up to want bytes.
func (p *tensorProto) typedBytes(t engine.DType, want int) ([]byte, error) {
	number, wire := typedField(t)
	if want/t.Size() > len(p.message) { // each takes at least a byte
		return nil, fmt.Errorf("shape %v claims %d elements in a message of %d bytes", p.dims, want/t.Size(), len(p.message))
	}
	var data []byte
	err := eachField(p.message, func(f field) error {
		switch {
		case f.number != number:
			return nil
		case f.typ == protowire.BytesType && len(f.bytes) == want && wire != protowire.VarintType:
			data = f.bytes // packed, all of it: already little-endian
			return nil
		}
		return f.eachScalar(wire, func(v uint64) error {
			if data == nil {
				data = make([]byte, 0, want)
			}
			if len(data) >= want {
				return errTooMany
			}
			data = appendElement(data, t.Size(), v)
			return nil
		})
	})
	if errors.Is(err, errTooMany) {
		return nil, fmt.Errorf("got more elements than shape %v of %v", p.dims, t)
	}
	return data, err
}

func appendElement(data []byte, size int, v uint64) []byte {
	switch size {
	case 1:
		return append(data, byte(v))
	case 2:
		return binary.LittleEndian.AppendUint16(data, uint16(v))
	case 4:
		return binary.LittleEndian.AppendUint32(data, uint32(v))
	}
	return binary.LittleEndian.AppendUint64(data, v)
}
