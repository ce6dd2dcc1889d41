// Package gguftest writes GGUF files for tests.
package gguftest

import (
	"encoding/binary"
	"math"
	"os"
	"testing"
)

// Tensor is one that is written: its type's number in the format, its dimensions with the rows first, and its bytes.
type Tensor struct {
	Name  string
	Type  uint32
	Shape []int
	Data  []byte
}

// Key is one of the metadata. Values are of string, bool, uint32, float32, and slices of string, int32 and float32.
type Key struct {
	Name  string
	Value any
}

// alignment is where tensors begin.
const alignment = 32

// Write writes a file, or fails the test.
func Write(t testing.TB, path string, keys []Key, tensors []Tensor) {
	t.Helper()
	if err := os.WriteFile(path, File(keys, tensors), 0o600); err != nil {
		t.Fatal(err)
	}
}

// File is the content of a file.
func File(keys []Key, tensors []Tensor) []byte {
	b := binary.LittleEndian.AppendUint32([]byte("GGUF"), 3)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(tensors)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(keys)))
	for _, k := range keys {
		b = appendValue(appendText(b, k.Name), k.Value)
	}
	offset := 0
	for _, x := range tensors {
		b = binary.LittleEndian.AppendUint32(appendText(b, x.Name), uint32(len(x.Shape)))
		for i := range x.Shape {
			b = binary.LittleEndian.AppendUint64(b, uint64(x.Shape[len(x.Shape)-1-i]))
		}
		b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(b, x.Type), uint64(offset))
		offset += len(align(x.Data))
	}
	b = align(b)
	for _, x := range tensors {
		b = append(b, align(x.Data)...)
	}
	return b
}

func align(b []byte) []byte {
	return append(b[:len(b):len(b)], make([]byte, (alignment-len(b)%alignment)%alignment)...)
}

func appendText(b []byte, text string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(text))), text...)
}

// Numbers of types of values in the format.
const (
	typeUint32  = 4
	typeInt32   = 5
	typeFloat32 = 6
	typeBool    = 7
	typeString  = 8
	typeArray   = 9
)

func appendValue(b []byte, value any) []byte {
	number := func(typ uint32) []byte { return binary.LittleEndian.AppendUint32(b, typ) }
	switch v := value.(type) {
	case string:
		return appendText(number(typeString), v)
	case bool:
		if v {
			return append(number(typeBool), 1)
		}
		return append(number(typeBool), 0)
	case uint32:
		return binary.LittleEndian.AppendUint32(number(typeUint32), v)
	case float32:
		return binary.LittleEndian.AppendUint32(number(typeFloat32), math.Float32bits(v))
	case []string:
		return appendArray(b, typeString, v, appendText)
	case []int32:
		return appendArray(b, typeInt32, v, func(b []byte, n int32) []byte { return binary.LittleEndian.AppendUint32(b, uint32(n)) })
	case []float32:
		return appendArray(b, typeFloat32, v, func(b []byte, x float32) []byte { return binary.LittleEndian.AppendUint32(b, math.Float32bits(x)) })
	}
	panic("gguftest: a value of another type")
}

func appendArray[T any](b []byte, typ uint32, list []T, add func([]byte, T) []byte) []byte {
	b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, typeArray), typ)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(list)))
	for _, x := range list {
		b = add(b, x)
	}
	return b
}
