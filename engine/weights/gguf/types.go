package gguf

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/kernels"
)

// Type is how a tensor's elements are kept, by its number in the format.
type Type uint32

// The types that Expand knows.
const (
	F32   Type = 0
	F16   Type = 1
	Q4_0  Type = 2
	Q4_1  Type = 3
	Q5_0  Type = 6
	Q5_1  Type = 7
	Q8_0  Type = 8
	Q2_K  Type = 10
	Q3_K  Type = 11
	Q4_K  Type = 12
	Q5_K  Type = 13
	Q6_K  Type = 14
	IQ4NL Type = 20
	IQ4XS Type = 23
	BF16  Type = 30
	MXFP4 Type = 39
)

// Plain are the types whose elements stand for themselves.
var Plain = map[Type]kernels.DType{F32: kernels.F32, F16: kernels.F16, BF16: kernels.BF16}

// layout is how the elements of a type lie.
type layout struct {
	name         string
	block, bytes int                             // elements of a block, and what they take
	expand       func(dst []float32, src []byte) // of one block; nil of Plain ones
}

// layouts has the types that are read, and the names of others.
var layouts = map[Type]layout{
	F32:   {name: "F32", block: 1, bytes: 4},
	F16:   {name: "F16", block: 1, bytes: 2},
	BF16:  {name: "BF16", block: 1, bytes: 2},
	Q4_0:  {"Q4_0", 32, 18, expandQ4x0},
	Q4_1:  {"Q4_1", 32, 20, expandQ4x1},
	Q5_0:  {"Q5_0", 32, 22, expandQ5x0},
	Q5_1:  {"Q5_1", 32, 24, expandQ5x1},
	Q8_0:  {"Q8_0", 32, 34, expandQ8x0},
	Q2_K:  {"Q2_K", 256, 84, expandQ2K},
	Q3_K:  {"Q3_K", 256, 110, expandQ3K},
	Q4_K:  {"Q4_K", 256, 144, expandQ4K},
	Q5_K:  {"Q5_K", 256, 176, expandQ5K},
	Q6_K:  {"Q6_K", 256, 210, expandQ6K},
	IQ4NL: {"IQ4_NL", 32, 18, expandIQ4NL},
	IQ4XS: {"IQ4_XS", 256, 136, expandIQ4XS},
	MXFP4: {"MXFP4", 32, 17, expandMXFP4},

	9: {name: "Q8_1"}, 15: {name: "Q8_K"}, 16: {name: "IQ2_XXS"}, 17: {name: "IQ2_XS"}, 18: {name: "IQ3_XXS"}, 19: {name: "IQ1_S"}, 21: {name: "IQ3_S"},
	22: {name: "IQ2_S"}, 24: {name: "I8"}, 25: {name: "I16"}, 26: {name: "I32"}, 27: {name: "I64"}, 28: {name: "F64"}, 29: {name: "IQ1_M"},
	34: {name: "TQ1_0"}, 35: {name: "TQ2_0"},
}

// String is the type's name in the format.
func (t Type) String() string {
	if l, ok := layouts[t]; ok {
		return l.name
	}
	return fmt.Sprintf("%d", uint32(t))
}

// supportedTypes lists the types that Expand knows.
func supportedTypes() string {
	var names []string
	for _, t := range slices.Sorted(maps.Keys(layouts)) {
		if layouts[t].bytes > 0 {
			names = append(names, layouts[t].name)
		}
	}
	return strings.Join(names, ", ")
}

// BlockLen is how many elements have a scale in common; 1: none has.
func (t Type) BlockLen() int { return layouts[t].block }

// Bytes is what so many elements take, whole blocks.
func (t Type) Bytes(elements int64) int64 {
	l := layouts[t]
	return elements / int64(l.block) * int64(l.bytes)
}

// Expand sets dst to the elements of whole blocks: the float32 values that ggml's own functions give.
func (t Type) Expand(dst []float32, src []byte) {
	if plain, ok := Plain[t]; ok {
		kernels.Expand(dst, plain, src)
		return
	}
	l := layouts[t]
	for len(dst) > 0 {
		l.expand(dst[:l.block], src[:l.bytes])
		dst, src = dst[l.block:], src[l.bytes:]
	}
}
