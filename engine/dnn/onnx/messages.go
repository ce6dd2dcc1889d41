package onnx

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// The messages of ONNX's format, as far as they are used here. Field numbers are those of onnx.proto.

type modelProto struct {
	producer, producerVersion string
	opsets                    []opsetID
	metadata                  map[string]string
	graph                     *graphProto
}

type opsetID struct {
	domain  string
	version int64
}

type graphProto struct {
	name            string
	nodes           []*nodeProto
	initializers    []*tensorProto
	sparse          int // initializers
	inputs, outputs []*valueInfo
	infos           []*valueInfo
}

type nodeProto struct {
	name, op, domain string
	in, out          []string
	attributes       []*attributeProto
}

type attributeProto struct {
	name, reference string
	typ             int64
	f               float64
	i               int64
	s               string
	t               *tensorProto
	g               *graphProto
	floats          []float64
	ints            []int64
	strings         []string
}

type valueInfo struct {
	name   string
	kind   string // "" of a tensor, else what it is instead
	typ    int64  // of elements
	shaped bool
	dims   []dimension
}

type dimension struct {
	value int64
	param string
}

// appendMessage decodes a message into a new element of a list.
func appendMessage[T any](d *decoder, f field, list *[]*T, read func([]byte, *T) error) error {
	element := new(T)
	if err := countElement(d, *element); err != nil {
		return err
	}
	*list = append(*list, element)
	return f.decodeMessage(func(b []byte) error { return read(b, element) })
}

func (d *decoder) addText(f field, list *[]string) error {
	var s string
	if err := countElement(d, s); err != nil {
		return err
	}
	err := f.readText(&s)
	*list = append(*list, s)
	return err
}

func (d *decoder) decodeModel(b []byte, m *modelProto) error {
	return eachField(b, func(f field) error {
		switch f.number {
		case 2:
			return f.readText(&m.producer)
		case 3:
			return f.readText(&m.producerVersion)
		case 7:
			m.graph = &graphProto{}
			return f.decodeMessage(func(b []byte) error { return d.decodeGraph(b, m.graph, 0) })
		case 8:
			if err := countElement(d, opsetID{}); err != nil {
				return err
			}
			return f.decodeMessage(func(b []byte) error { return m.decodeOpset(b) })
		case 14:
			if err := countElement(d, opsetID{}); err != nil {
				return err
			}
			return f.decodeMessage(m.decodeMetadata)
		}
		return nil
	})
}

func (m *modelProto) decodeOpset(b []byte) error {
	var id opsetID
	err := eachField(b, func(f field) error {
		switch f.number {
		case 1:
			return f.readText(&id.domain)
		case 2:
			return f.readInt(&id.version)
		}
		return nil
	})
	m.opsets = append(m.opsets, id)
	return err
}

func (m *modelProto) decodeMetadata(b []byte) error {
	var key, value string
	err := eachField(b, func(f field) error {
		switch f.number {
		case 1:
			return f.readText(&key)
		case 2:
			return f.readText(&value)
		}
		return nil
	})
	if m.metadata == nil {
		m.metadata = map[string]string{}
	}
	m.metadata[key] = value
	return err
}

func (d *decoder) decodeGraph(b []byte, g *graphProto, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("graphs are nested deeper than %d", maxDepth)
	}
	return eachField(b, func(f field) error {
		switch f.number {
		case 1:
			if d.nodes++; d.nodes > maxNodes {
				return nil // it is counted, and the model refused
			}
			return appendMessage(d, f, &g.nodes, func(b []byte, n *nodeProto) error { return d.decodeNode(b, n, depth) })
		case 2:
			return f.readText(&g.name)
		case 5:
			return appendMessage(d, f, &g.initializers, d.decodeTensor)
		case 11:
			return appendMessage(d, f, &g.inputs, d.valueInfo)
		case 12:
			return appendMessage(d, f, &g.outputs, d.valueInfo)
		case 13:
			return appendMessage(d, f, &g.infos, d.valueInfo)
		case 15:
			g.sparse++
		}
		return nil
	})
}

func (d *decoder) decodeNode(b []byte, n *nodeProto, depth int) error {
	return eachField(b, func(f field) error {
		switch f.number {
		case 1:
			return d.addText(f, &n.in)
		case 2:
			return d.addText(f, &n.out)
		case 3:
			return f.readText(&n.name)
		case 4:
			return f.readText(&n.op)
		case 5:
			return appendMessage(d, f, &n.attributes, func(b []byte, a *attributeProto) error { return d.decodeAttribute(b, a, depth) })
		case 7:
			return f.readText(&n.domain)
		}
		return nil
	})
}

func (d *decoder) decodeAttribute(b []byte, a *attributeProto, depth int) error {
	return eachField(b, func(f field) error {
		switch f.number {
		case 1:
			return f.readText(&a.name)
		case 2:
			a.f = float64(math.Float32frombits(uint32(f.scalar)))
			return f.checkType(protowire.Fixed32Type)
		case 3:
			return f.readInt(&a.i)
		case 4:
			return f.readText(&a.s)
		case 5:
			a.t = &tensorProto{}
			return f.decodeMessage(func(b []byte) error { return d.decodeTensor(b, a.t) })
		case 6:
			a.g = &graphProto{}
			return f.decodeMessage(func(b []byte) error { return d.decodeGraph(b, a.g, depth+1) })
		case 7:
			return f.eachScalar(protowire.Fixed32Type, func(v uint64) error {
				a.floats = append(a.floats, float64(math.Float32frombits(uint32(v))))
				return countElement(d, v)
			})
		case 8:
			return d.decodeInts(f, &a.ints)
		case 9:
			return d.addText(f, &a.strings)
		case 20:
			return f.readInt(&a.typ)
		case 21:
			return f.readText(&a.reference)
		}
		return nil
	})
}

func (d *decoder) decodeInts(f field, list *[]int64) error {
	return f.eachScalar(protowire.VarintType, func(v uint64) error {
		*list = append(*list, int64(v))
		return countElement(d, v)
	})
}

func (d *decoder) valueInfo(b []byte, v *valueInfo) error {
	return eachField(b, func(f field) error {
		switch f.number {
		case 1:
			return f.readText(&v.name)
		case 2:
			return f.decodeMessage(func(b []byte) error { return d.decodeType(b, v) })
		}
		return nil
	})
}

// kinds are the types that are no tensors, by their field in TypeProto.
var kinds = map[protowire.Number]string{4: "sequence", 5: "map", 7: "opaque", 8: "sparse tensor", 9: "optional"}

func (d *decoder) decodeType(b []byte, v *valueInfo) error {
	return eachField(b, func(f field) error {
		if kind, ok := kinds[f.number]; ok {
			v.kind = kind
		}
		if f.number != 1 {
			return nil
		}
		return f.decodeMessage(func(b []byte) error {
			return eachField(b, func(f field) error {
				switch f.number {
				case 1:
					return f.readInt(&v.typ)
				case 2:
					v.shaped = true
					return f.decodeMessage(func(b []byte) error { return d.decodeShape(b, v) })
				}
				return nil
			})
		})
	})
}

func (d *decoder) decodeShape(b []byte, v *valueInfo) error {
	return eachField(b, func(f field) error {
		if f.number != 1 {
			return nil
		}
		dim := dimension{value: -1}
		if err := countElement(d, dim); err != nil {
			return err
		}
		err := f.decodeMessage(func(b []byte) error {
			return eachField(b, func(f field) error {
				switch f.number {
				case 1:
					return f.readInt(&dim.value)
				case 2:
					return f.readText(&dim.param)
				}
				return nil
			})
		})
		v.dims = append(v.dims, dim)
		return err
	})
}
