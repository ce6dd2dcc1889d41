// Package onnxtest writes small ONNX models for tests.
package onnxtest

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// ONNX's numbers of the element types that tests use most.
const (
	Float32 = 1
	Int64   = 7
	String  = 8
	Bool    = 9
	Float16 = 10
)

// Graph is a GraphProto.
type Graph struct {
	Name            string
	Nodes           []Node
	Inputs, Outputs []Value
	Constants       []Tensor
}

// Node is a NodeProto. Attributes are int, float64, string, []int, []float64, []string, Tensor or Graph.
type Node struct {
	Name, Op, Domain string
	In, Out          []string
	Attrs            map[string]any
}

// Value is a ValueInfoProto of a tensor. Dimensions are int or string.
type Value struct {
	Name string
	Type int
	Dims []any
}

// Tensor is a TensorProto.
type Tensor struct {
	Name     string
	Type     int
	Dims     []int
	Raw      []byte
	Ints     []int             // in the field int64_data
	Floats   []float64         // in the field float_data
	External map[string]string // where the data is
}

// Floats is a FLOAT tensor.
func Floats(name string, dims []int, elements ...float64) Tensor {
	return Tensor{Name: name, Type: Float32, Dims: dims, Floats: elements}
}

// Ints is an INT64 tensor of one dimension.
func Ints(name string, elements ...int) Tensor {
	return Tensor{Name: name, Type: Int64, Dims: []int{len(elements)}, Ints: elements}
}

// message is protobuf that is being written.
type message []byte

func (m *message) appendInt(number protowire.Number, v int) {
	*m = protowire.AppendTag(*m, number, protowire.VarintType)
	*m = protowire.AppendVarint(*m, uint64(v))
}

func (m *message) appendBytes(number protowire.Number, b []byte) {
	*m = protowire.AppendTag(*m, number, protowire.BytesType)
	*m = protowire.AppendBytes(*m, b)
}

func (m *message) appendText(number protowire.Number, s string) { m.appendBytes(number, []byte(s)) }

func encodeFloat(x float64) []byte {
	return protowire.AppendFixed32(nil, math.Float32bits(float32(x)))
}

// File is the bytes of a file with this graph.
func File(opset int, g Graph) []byte {
	var id, m message
	id.appendText(1, "")
	id.appendInt(2, opset)
	m.appendInt(1, 8)
	m.appendText(2, "onnxtest")
	m.appendBytes(8, id)
	m.appendBytes(7, g.encode())
	return m
}

func (g Graph) encode() []byte {
	var m message
	for _, n := range g.Nodes {
		m.appendBytes(1, n.encode())
	}
	m.appendText(2, g.Name)
	for _, t := range g.Constants {
		m.appendBytes(5, t.encode())
	}
	for _, v := range g.Inputs {
		m.appendBytes(11, v.encode())
	}
	for _, v := range g.Outputs {
		m.appendBytes(12, v.encode())
	}
	return m
}

func (n Node) encode() []byte {
	var m message
	for _, name := range n.In {
		m.appendText(1, name)
	}
	for _, name := range n.Out {
		m.appendText(2, name)
	}
	m.appendText(3, n.Name)
	m.appendText(4, n.Op)
	for _, name := range slices.Sorted(maps.Keys(n.Attrs)) {
		m.appendBytes(5, encodeAttribute(name, n.Attrs[name]))
	}
	m.appendText(7, n.Domain)
	return m
}

func encodeAttribute(name string, value any) []byte {
	var m message
	m.appendText(1, name)
	kind := 0
	switch v := value.(type) {
	case float64:
		kind = 1
		m = protowire.AppendTag(m, 2, protowire.Fixed32Type)
		m = append(m, encodeFloat(v)...)
	case int:
		kind = 2
		m.appendInt(3, v)
	case string:
		kind = 3
		m.appendText(4, v)
	case Tensor:
		kind = 4
		m.appendBytes(5, v.encode())
	case Graph:
		kind = 5
		m.appendBytes(6, v.encode())
	case []float64:
		kind = 6
		m.appendBytes(7, packedFloats(v))
	case []int:
		kind = 7
		m.appendBytes(8, packedInts(v))
	case []string:
		kind = 8
		for _, s := range v {
			m.appendText(9, s)
		}
	default:
		panic(fmt.Sprintf("attribute %s is a %T", name, value))
	}
	m.appendInt(20, kind)
	return m
}

func packedFloats(elements []float64) (b []byte) {
	for _, x := range elements {
		b = append(b, encodeFloat(x)...)
	}
	return b
}

func packedInts(elements []int) (b []byte) {
	for _, x := range elements {
		b = protowire.AppendVarint(b, uint64(x))
	}
	return b
}

func (t Tensor) encode() []byte {
	var m message
	m.appendBytes(1, packedInts(t.Dims))
	m.appendInt(2, t.Type)
	if t.Floats != nil {
		m.appendBytes(4, packedFloats(t.Floats))
	}
	if t.Ints != nil {
		m.appendBytes(7, packedInts(t.Ints))
	}
	m.appendText(8, t.Name)
	if t.Raw != nil {
		m.appendBytes(9, t.Raw)
	}
	for _, key := range slices.Sorted(maps.Keys(t.External)) {
		var e message
		e.appendText(1, key)
		e.appendText(2, t.External[key])
		m.appendBytes(13, e)
	}
	if t.External != nil {
		m.appendInt(14, 1)
	}
	return m
}

func (v Value) encode() []byte {
	var shape, tensor, typ, m message
	for _, d := range v.Dims {
		var dim message
		switch d := d.(type) {
		case int:
			dim.appendInt(1, d)
		case string:
			dim.appendText(2, d)
		}
		shape.appendBytes(1, dim)
	}
	tensor.appendInt(1, v.Type)
	tensor.appendBytes(2, shape)
	typ.appendBytes(1, tensor)
	m.appendText(1, v.Name)
	m.appendBytes(2, typ)
	return m
}
