package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// kind is the type of a value of metadata.
type kind uint32

const (
	kindUint8 kind = iota
	kindInt8
	kindUint16
	kindInt16
	kindUint32
	kindInt32
	kindFloat32
	kindBool
	kindString
	kindArray
	kindUint64
	kindInt64
	kindFloat64
)

// kindBytes is how many bytes a value of fixed size takes; 0 of others.
var kindBytes = [...]uint64{kindUint8: 1, kindInt8: 1, kindUint16: 2, kindInt16: 2, kindUint32: 4, kindInt32: 4, kindFloat32: 4, kindBool: 1, kindUint64: 8, kindInt64: 8, kindFloat64: 8}

// Value is one of metadata, checked.
type Value struct {
	kind  kind // of an array its elements'
	array bool
	count int
	raw   []byte // of a string without its length, of an array of strings with theirs
}

// Metadata is what a file says beside its tensors.
type Metadata struct{ values map[string]Value }

// readKey reads one key and its value.
func (m *Metadata) readKey(c *cursor) error {
	name, err := c.string("a key", maxKeyBytes)
	if err != nil {
		return err
	}
	at := c.at
	v, err := c.readValue()
	if err != nil {
		return fmt.Errorf("key %.200q: %w", name, err)
	}
	if m.Has(string(name)) {
		return fmt.Errorf("key %.200q at offset %d is there twice", name, at)
	}
	m.values[string(name)] = v
	return nil
}

func (c *cursor) readValue() (Value, error) {
	at := c.at
	typ, err := c.uint32("the type of a value")
	if err != nil {
		return Value{}, err
	}
	v := Value{kind: kind(typ), count: 1}
	if v.kind == kindArray {
		if typ, err = c.uint32("the type of an array's elements"); err != nil {
			return v, err
		}
		v.kind, v.array = kind(typ), true
	}
	switch {
	case v.kind == kindArray || int(v.kind) >= len(kindBytes):
		return v, fmt.Errorf("at offset %d: unsupported type %d of a value or of an array's elements", at, v.kind)
	case !v.array && v.kind == kindString:
		v.raw, err = c.string("a text", math.MaxInt64)
		return v, err
	case v.array:
		if v.count, err = c.count("elements", math.MaxInt64, max(kindBytes[v.kind], 1)); err != nil {
			return v, err
		}
	}
	if v.kind == kindString {
		v.raw, err = c.skipStrings(v.count)
	} else {
		v.raw, err = c.readBytes(uint64(v.count)*kindBytes[v.kind], "a value")
	}
	return v, err
}

// skipStrings returns the bytes of so many texts, each with its length in front.
func (c *cursor) skipStrings(count int) ([]byte, error) {
	begin := c.at
	for i := range count {
		if _, err := c.string("a text", math.MaxInt64); err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return c.data[begin:c.at], nil
}

// Has says whether there is a key.
func (m *Metadata) Has(key string) bool {
	_, ok := m.values[key]
	return ok
}

// Bounds of what is copied out of a file, which a sparse file of few bytes may claim to have: the largest vocabularies have 2^18 tokens and 2^19 merges
// of some megabytes.
const (
	mostElements = 1 << 22
	mostBytes    = 64 << 20 // of a text, or of an array's together
)

// find returns a value, or an error unless it is there as one value, or as an array.
func (m *Metadata) find(key string, array bool, want string) (Value, error) {
	v, ok := m.values[key]
	switch {
	case !ok:
		return v, fmt.Errorf("missing key %q", key)
	case v.array != array:
		return v, fmt.Errorf("key %q is of another type, want %s", key, want)
	case v.count > mostElements:
		return v, fmt.Errorf("key %q has %d elements, want at most %d", key, v.count, mostElements)
	case len(v.raw) > mostBytes:
		return v, fmt.Errorf("key %q has %d bytes, want at most %d", key, len(v.raw), mostBytes)
	}
	return v, nil
}

// String is a text.
func (m *Metadata) String(key string) (string, error) {
	v, err := m.find(key, false, "a text")
	if err == nil && v.kind != kindString {
		err = fmt.Errorf("key %q is of another type, want a text", key)
	}
	return string(v.raw), err
}

// Int is a whole number.
func (m *Metadata) Int(key string) (int, error) {
	v, err := m.find(key, false, "a whole number")
	if err != nil {
		return 0, err
	}
	n, ok := v.integer(0)
	if !ok {
		return 0, fmt.Errorf("invalid key %q: want a whole number up to 2^53", key)
	}
	return n, nil
}

// Float is a number.
func (m *Metadata) Float(key string) (float64, error) {
	v, err := m.find(key, false, "a number")
	if err != nil {
		return 0, err
	}
	x, ok := v.float(0)
	if !ok || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0, fmt.Errorf("invalid key %q: want a finite number", key)
	}
	return x, nil
}

// Bool is true or false.
func (m *Metadata) Bool(key string) (bool, error) {
	v, err := m.find(key, false, "true or false")
	if err == nil && v.kind != kindBool {
		err = fmt.Errorf("key %q is of another type, want true or false", key)
	}
	return err == nil && v.raw[0] != 0, err
}

// Strings are an array's texts.
func (m *Metadata) Strings(key string) ([]string, error) {
	v, err := m.find(key, true, "an array of texts")
	if err == nil && v.kind != kindString {
		err = fmt.Errorf("key %q is of another type, want an array of texts", key)
	}
	if err != nil {
		return nil, err
	}
	list := make([]string, v.count)
	for i, rest := 0, v.raw; i < v.count; i++ {
		n := binary.LittleEndian.Uint64(rest)
		list[i], rest = string(rest[8:8+n]), rest[8+n:]
	}
	return list, nil
}

// Ints are an array's whole numbers.
func (m *Metadata) Ints(key string) ([]int, error) {
	return arrayOf(m, key, "whole numbers", Value.integer)
}

// Floats are an array's numbers.
func (m *Metadata) Floats(key string) ([]float64, error) {
	return arrayOf(m, key, "numbers", Value.float)
}

func arrayOf[T any](m *Metadata, key, what string, element func(Value, int) (T, bool)) ([]T, error) {
	v, err := m.find(key, true, "an array of "+what)
	if err != nil {
		return nil, err
	}
	list := make([]T, v.count)
	for i := range list {
		var ok bool
		if list[i], ok = element(v, i); !ok {
			return nil, fmt.Errorf("key %q is of another type, want an array of %s", key, what)
		}
	}
	return list, nil
}

// mostInt is the largest whole number that any reader of JSON keeps.
const mostInt = 1 << 53

// integer is element i, unless that is no whole number, or too large.
func (v Value) integer(i int) (int, bool) {
	size := int(kindBytes[v.kind])
	at := v.raw[min(i*size, len(v.raw)):]
	var n int64
	switch v.kind {
	case kindUint8:
		n = int64(at[0])
	case kindInt8:
		n = int64(int8(at[0]))
	case kindUint16:
		n = int64(binary.LittleEndian.Uint16(at))
	case kindInt16:
		n = int64(int16(binary.LittleEndian.Uint16(at)))
	case kindUint32:
		n = int64(binary.LittleEndian.Uint32(at))
	case kindInt32:
		n = int64(int32(binary.LittleEndian.Uint32(at)))
	case kindUint64, kindInt64:
		n = int64(binary.LittleEndian.Uint64(at))
		if v.kind == kindUint64 && n < 0 {
			return 0, false
		}
	default:
		return 0, false
	}
	return int(n), n >= -mostInt && n <= mostInt
}

// float is element i, unless that is no number.
func (v Value) float(i int) (float64, bool) {
	switch v.kind {
	case kindFloat32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(v.raw[4*i:]))), true
	case kindFloat64:
		return math.Float64frombits(binary.LittleEndian.Uint64(v.raw[8*i:])), true
	}
	n, ok := v.integer(i)
	return float64(n), ok
}
