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

// add decodes a message into a new element of a list.
func add[T any](d *decoder, f field, list *[]*T, read func([]byte, *T) error) error {
	element := new(T)
	if err := take(d, *element); err != nil {
		return err
	}
	*list = append(*list, element)
	return f.message(func(b []byte) error { return read(b, element) })
}

func (d *decoder) addText(f field, list *[]string) error {
	var s string
	if err := take(d, s); err != nil {
		return err
	}
	err := f.text(&s)
	*list = append(*list, s)
	return err
}

func (d *decoder) model(b []byte, m *modelProto) error {
	return fields(b, func(f field) error {
		switch f.number {
		case 2:
			return f.text(&m.producer)
		case 3:
			return f.text(&m.producerVersion)
		case 7:
			m.graph = &graphProto{}
			return f.message(func(b []byte) error { return d.graph(b, m.graph, 0) })
		case 8:
			if err := take(d, opsetID{}); err != nil {
				return err
			}
			return f.message(func(b []byte) error { return m.opset(b) })
		}
		return nil
	})
}

func (m *modelProto) opset(b []byte) error {
	var id opsetID
	err := fields(b, func(f field) error {
		switch f.number {
		case 1:
			return f.text(&id.domain)
		case 2:
			return f.int(&id.version)
		}
		return nil
	})
	m.opsets = append(m.opsets, id)
	return err
}

func (d *decoder) graph(b []byte, g *graphProto, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("graphs are nested deeper than %d", maxDepth)
	}
	return fields(b, func(f field) error {
		switch f.number {
		case 1:
			if d.nodes++; d.nodes > maxNodes {
				return nil // it is counted, and the model refused
			}
			return add(d, f, &g.nodes, func(b []byte, n *nodeProto) error { return d.node(b, n, depth) })
		case 2:
			return f.text(&g.name)
		case 5:
			return add(d, f, &g.initializers, d.tensor)
		case 11:
			return add(d, f, &g.inputs, d.valueInfo)
		case 12:
			return add(d, f, &g.outputs, d.valueInfo)
		case 13:
			return add(d, f, &g.infos, d.valueInfo)
		case 15:
			g.sparse++
		}
		return nil
	})
}

func (d *decoder) node(b []byte, n *nodeProto, depth int) error {
	return fields(b, func(f field) error {
		switch f.number {
		case 1:
			return d.addText(f, &n.in)
		case 2:
			return d.addText(f, &n.out)
		case 3:
			return f.text(&n.name)
		case 4:
			return f.text(&n.op)
		case 5:
			return add(d, f, &n.attributes, func(b []byte, a *attributeProto) error { return d.attribute(b, a, depth) })
		case 7:
			return f.text(&n.domain)
		}
		return nil
	})
}

func (d *decoder) attribute(b []byte, a *attributeProto, depth int) error {
	return fields(b, func(f field) error {
		switch f.number {
		case 1:
			return f.text(&a.name)
		case 2:
			a.f = float64(math.Float32frombits(uint32(f.scalar)))
			return f.is(protowire.Fixed32Type)
		case 3:
			return f.int(&a.i)
		case 4:
			return f.text(&a.s)
		case 5:
			a.t = &tensorProto{}
			return f.message(func(b []byte) error { return d.tensor(b, a.t) })
		case 6:
			a.g = &graphProto{}
			return f.message(func(b []byte) error { return d.graph(b, a.g, depth+1) })
		case 7:
			return f.scalars(protowire.Fixed32Type, func(v uint64) error {
				a.floats = append(a.floats, float64(math.Float32frombits(uint32(v))))
				return take(d, v)
			})
		case 8:
			return d.ints(f, &a.ints)
		case 9:
			return d.addText(f, &a.strings)
		case 20:
			return f.int(&a.typ)
		case 21:
			return f.text(&a.reference)
		}
		return nil
	})
}

func (d *decoder) ints(f field, list *[]int64) error {
	return f.scalars(protowire.VarintType, func(v uint64) error {
		*list = append(*list, int64(v))
		return take(d, v)
	})
}

func (d *decoder) valueInfo(b []byte, v *valueInfo) error {
	return fields(b, func(f field) error {
		switch f.number {
		case 1:
			return f.text(&v.name)
		case 2:
			return f.message(func(b []byte) error { return d.typ(b, v) })
		}
		return nil
	})
}

// kinds are the types that are no tensors, by their field in TypeProto.
var kinds = map[protowire.Number]string{4: "sequence", 5: "map", 7: "opaque", 8: "sparse tensor", 9: "optional"}

func (d *decoder) typ(b []byte, v *valueInfo) error {
	return fields(b, func(f field) error {
		if kind, ok := kinds[f.number]; ok {
			v.kind = kind
		}
		if f.number != 1 {
			return nil
		}
		return f.message(func(b []byte) error {
			return fields(b, func(f field) error {
				switch f.number {
				case 1:
					return f.int(&v.typ)
				case 2:
					v.shaped = true
					return f.message(func(b []byte) error { return d.shape(b, v) })
				}
				return nil
			})
		})
	})
}

func (d *decoder) shape(b []byte, v *valueInfo) error {
	return fields(b, func(f field) error {
		if f.number != 1 {
			return nil
		}
		dim := dimension{value: -1}
		if err := take(d, dim); err != nil {
			return err
		}
		err := f.message(func(b []byte) error {
			return fields(b, func(f field) error {
				switch f.number {
				case 1:
					return f.int(&dim.value)
				case 2:
					return f.text(&dim.param)
				}
				return nil
			})
		})
		v.dims = append(v.dims, dim)
		return err
	})
}
