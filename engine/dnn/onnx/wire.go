package onnx

import (
	"errors"
	"fmt"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxDecoded bounds the bytes that the nodes, attributes, names, dimensions and the like of a model take together, so
// that a small file cannot fill the memory with them. maxNodes convolutions with all their attributes take two thirds.
const maxDecoded = 512 << 20

// maxNodes bounds the nodes of a model, those of graphs within its nodes included: what is made of each takes its time.
const maxNodes = 1 << 18

// maxDepth is how deep graphs may be nested in attributes of graphs.
const maxDepth = 32

// decoder counts what it has decoded of a model.
type decoder struct {
	bytes uintptr
	nodes int
}

// countElement counts an element of a list.
func countElement[T any](d *decoder, element T) error {
	if d.bytes += unsafe.Sizeof(element); d.bytes > maxDecoded {
		return fmt.Errorf("nodes, attributes, names and dimensions take more than %d MiB", maxDecoded>>20)
	}
	return nil
}

// field is one field of a message. Of its values, that of its wire type is set.
type field struct {
	number protowire.Number
	typ    protowire.Type
	scalar uint64 // of a varint, or a fixed number
	bytes  []byte
}

// eachField calls each for the fields of a message, in their order.
func eachField(message []byte, each func(field) error) error {
	for len(message) > 0 {
		f, n, err := consumeField(message)
		if err != nil {
			return err
		}
		if err := each(f); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}

func consumeField(message []byte) (field, int, error) {
	number, typ, head := protowire.ConsumeTag(message)
	if head < 0 {
		return field{}, 0, wireError(head)
	}
	f, rest, n := field{number: number, typ: typ}, message[head:], 0
	switch typ {
	case protowire.VarintType:
		f.scalar, n = protowire.ConsumeVarint(rest)
	case protowire.Fixed32Type:
		var v uint32
		v, n = protowire.ConsumeFixed32(rest)
		f.scalar = uint64(v)
	case protowire.Fixed64Type:
		f.scalar, n = protowire.ConsumeFixed64(rest)
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(rest)
	default:
		return field{}, 0, fmt.Errorf("field %d is a group: not an ONNX file, or corrupt", number)
	}
	if n < 0 {
		return field{}, 0, wireError(n)
	}
	return f, head + n, nil
}

// wireError is what a negative length of package protowire means here.
func wireError(n int) error {
	return fmt.Errorf("%w: not an ONNX file, or truncated", protowire.ParseError(n))
}

var errWireType = errors.New("has another wire type than in ONNX: not an ONNX file, or corrupt")

func (f field) checkType(typ protowire.Type) error {
	if f.typ != typ {
		return fmt.Errorf("field %d %w", f.number, errWireType)
	}
	return nil
}

// readInt sets dst to the field's number.
func (f field) readInt(dst *int64) error {
	*dst = int64(f.scalar)
	return f.checkType(protowire.VarintType)
}

func (f field) readText(dst *string) error {
	*dst = string(f.bytes)
	return f.checkType(protowire.BytesType)
}

// decodeMessage decodes the field by read.
func (f field) decodeMessage(read func([]byte) error) error {
	if err := f.checkType(protowire.BytesType); err != nil {
		return err
	}
	return read(f.bytes)
}

// eachScalar calls each for the numbers of a repeated field of type typ, which may be packed.
func (f field) eachScalar(typ protowire.Type, each func(uint64) error) error {
	if f.typ != protowire.BytesType {
		if err := f.checkType(typ); err != nil {
			return err
		}
		return each(f.scalar)
	}
	for b := f.bytes; len(b) > 0; {
		var v uint64
		var n int
		switch typ {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			var short uint32
			short, n = protowire.ConsumeFixed32(b)
			v = uint64(short)
		default:
			v, n = protowire.ConsumeFixed64(b)
		}
		if n < 0 {
			return wireError(n)
		}
		if err := each(v); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
