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

func (m *message) int(number protowire.Number, v int) {
	*m = protowire.AppendTag(*m, number, protowire.VarintType)
	*m = protowire.AppendVarint(*m, uint64(v))
}

func (m *message) bytes(number protowire.Number, b []byte) {
	*m = protowire.AppendTag(*m, number, protowire.BytesType)
	*m = protowire.AppendBytes(*m, b)
}

func (m *message) text(number protowire.Number, s string) { m.bytes(number, []byte(s)) }

func float(x float64) []byte {
	return protowire.AppendFixed32(nil, math.Float32bits(float32(x)))
}

// File is the bytes of a file with this graph.
func File(opset int, g Graph) []byte {
	var id, m message
	id.text(1, "")
	id.int(2, opset)
	m.int(1, 8)
	m.text(2, "onnxtest")
	m.bytes(8, id)
	m.bytes(7, g.encode())
	return m
}

func (g Graph) encode() []byte {
	var m message
	for _, n := range g.Nodes {
		m.bytes(1, n.encode())
	}
	m.text(2, g.Name)
	for _, t := range g.Constants {
		m.bytes(5, t.encode())
	}
	for _, v := range g.Inputs {
		m.bytes(11, v.encode())
	}
	for _, v := range g.Outputs {
		m.bytes(12, v.encode())
	}
	return m
}

func (n Node) encode() []byte {
	var m message
	for _, name := range n.In {
		m.text(1, name)
	}
	for _, name := range n.Out {
		m.text(2, name)
	}
	m.text(3, n.Name)
	m.text(4, n.Op)
	for _, name := range slices.Sorted(maps.Keys(n.Attrs)) {
		m.bytes(5, attribute(name, n.Attrs[name]))
	}
	m.text(7, n.Domain)
	return m
}

func attribute(name string, value any) []byte {
	var m message
	m.text(1, name)
	kind := 0
	switch v := value.(type) {
	case float64:
		kind = 1
		m = protowire.AppendTag(m, 2, protowire.Fixed32Type)
		m = append(m, float(v)...)
	case int:
		kind = 2
		m.int(3, v)
	case string:
		kind = 3
		m.text(4, v)
	case Tensor:
		kind = 4
		m.bytes(5, v.encode())
	case Graph:
		kind = 5
		m.bytes(6, v.encode())
	case []float64:
		kind = 6
		m.bytes(7, packedFloats(v))
	case []int:
		kind = 7
		m.bytes(8, packedInts(v))
	case []string:
		kind = 8
		for _, s := range v {
			m.text(9, s)
		}
	default:
		panic(fmt.Sprintf("attribute %s is a %T", name, value))
	}
	m.int(20, kind)
	return m
}

func packedFloats(elements []float64) (b []byte) {
	for _, x := range elements {
		b = append(b, float(x)...)
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
	m.bytes(1, packedInts(t.Dims))
	m.int(2, t.Type)
	if t.Floats != nil {
		m.bytes(4, packedFloats(t.Floats))
	}
	if t.Ints != nil {
		m.bytes(7, packedInts(t.Ints))
	}
	m.text(8, t.Name)
	if t.Raw != nil {
		m.bytes(9, t.Raw)
	}
	for _, key := range slices.Sorted(maps.Keys(t.External)) {
		var e message
		e.text(1, key)
		e.text(2, t.External[key])
		m.bytes(13, e)
	}
	if t.External != nil {
		m.int(14, 1)
	}
	return m
}

func (v Value) encode() []byte {
	var shape, tensor, typ, m message
	for _, d := range v.Dims {
		var dim message
		switch d := d.(type) {
		case int:
			dim.int(1, d)
		case string:
			dim.text(2, d)
		}
		shape.bytes(1, dim)
	}
	tensor.int(1, v.Type)
	tensor.bytes(2, shape)
	typ.bytes(1, tensor)
	m.text(1, v.Name)
	m.bytes(2, typ)
	return m
}
