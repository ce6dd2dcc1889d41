package onnx

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// Patch gives constants of a file other elements, in its bytes: those of FLOAT that are initializers of its graph, or values of Constant nodes there, by
// name. All else stays as it is, and so does the file's size. On an error nothing has changed.
func Patch(file []byte, constants map[string][]float32) error {
	var p modelProto
	var d decoder
	if err := d.decodeModel(file, &p); err != nil {
		return err
	}
	tensors := p.constants()
	places := map[string][][]byte{}
	for _, name := range slices.Sorted(maps.Keys(constants)) {
		t := tensors[name]
		if t == nil {
			return fmt.Errorf("constant %q is not in the file's graph", name)
		}
		place, err := t.floatPlaces()
		if err != nil {
			return fmt.Errorf("constant %q: %w", name, err)
		}
		size := 0
		for _, part := range place {
			size += len(part)
		}
		if want := 4 * len(constants[name]); size != want {
			return fmt.Errorf("constant %q: got %d elements, want %d as in the file", name, want/4, size/4)
		}
		places[name] = place
	}
	for name, place := range places {
		elements := constants[name]
		for _, part := range place {
			for ; len(part) > 0; part, elements = part[4:], elements[1:] {
				binary.LittleEndian.PutUint32(part, math.Float32bits(elements[0]))
			}
		}
	}
	return nil
}

// constants are the tensors that values of the main graph begin as, by the values' names.
func (m *modelProto) constants() map[string]*tensorProto {
	tensors := map[string]*tensorProto{}
	if m.graph == nil {
		return tensors
	}
	for _, n := range m.graph.nodes {
		for _, a := range n.attributes {
			if n.op == "Constant" && a.name == "value" && a.t != nil && len(n.out) > 0 {
				tensors[n.out[0]] = a.t
			}
		}
	}
	for _, t := range m.graph.initializers {
		tensors[t.name] = t
	}
	return tensors
}

// floatPlaces are where in the file a tensor's elements are, in their order.
func (t *tensorProto) floatPlaces() (places [][]byte, err error) {
	const float = 1
	switch {
	case t.typ != float:
		typ := typeNames[t.typ]
		if known, ok := graph.ElementType(t.typ); ok {
			typ = known.String()
		}
		return nil, fmt.Errorf("elements are %s, want FP32", typ)
	case t.external != nil:
		return nil, fmt.Errorf("elements are in another file, %q: want a model that is one file", t.external["location"])
	case t.raw != nil:
		places = [][]byte{t.raw}
	default:
		places, err = t.typedPlaces()
	}
	for _, part := range places {
		if len(part)%4 != 0 {
			return nil, fmt.Errorf("got %d bytes of data, no whole number of FP32", len(part))
		}
	}
	return places, err
}

// typedPlaces are those in the field of floats, as typedBytes reads it.
func (t *tensorProto) typedPlaces() (places [][]byte, err error) {
	want := 4
	for _, d := range t.dims {
		want *= int(d)
	}
	for message := t.message; len(message) > 0; {
		f, n, err := consumeField(message)
		if err != nil {
			return nil, err
		}
		switch {
		case f.number != 4:
		case f.typ == protowire.Fixed32Type:
			places = append(places, message[n-4:n])
		case f.typ != protowire.BytesType:
			return nil, f.checkType(protowire.Fixed32Type)
		case len(f.bytes) == want:
			places = [][]byte{f.bytes}
		default:
			places = append(places, f.bytes)
		}
		message = message[n:]
	}
	return places, nil
}
