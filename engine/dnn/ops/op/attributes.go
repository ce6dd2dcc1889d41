package op

import (
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// Attribute is that of a name; ok is false if it is not given.
func Attribute[T any](c *Call, name string) (value T, ok bool) {
	v, given := c.Node.Attrs[name]
	if !given {
		return value, false
	}
	value, ok = v.(T)
	if !ok {
		c.Fail("attribute %s has type %T, want %T", name, v, value)
	}
	return value, true
}

// Int is an integer attribute.
func (c *Call) Int(name string, fallback int) int {
	if v, ok := Attribute[int64](c, name); ok {
		return int(v)
	}
	return fallback
}

// Flag is an attribute that is 0 or 1.
func (c *Call) Flag(name string, fallback bool) bool {
	v := c.Int(name, -1)
	if _, given := c.Node.Attrs[name]; !given {
		return fallback
	}
	if v != 0 && v != 1 {
		c.Fail("invalid attribute %s %d: want 0 or 1", name, v)
	}
	return v == 1
}

// Float is a number that is an attribute.
func (c *Call) Float(name string, fallback float64) float64 {
	if v, ok := Attribute[float64](c, name); ok {
		return v
	}
	return fallback
}

// Word is a string attribute, one of words; the first of them if it is not given.
func (c *Call) Word(name string, words ...string) string {
	v, ok := Attribute[string](c, name)
	if !ok {
		return words[0]
	}
	if !slices.Contains(words, v) {
		c.Fail("invalid attribute %s %q: want one of %s", name, v, strings.Join(words, ", "))
	}
	return v
}

// List is an attribute of integers; ok is false if it is not given.
// List is the types, in the order of their numbers.
func (c *Call) List(name string) (values []int, ok bool) {
	v, ok := Attribute[[]int64](c, name)
	for _, x := range v {
		values = append(values, int(x))
	}
	return values, ok
}

// Axis is the attribute of this name as a dimension from 0 to rank-1.
func (c *Call) Axis(name string, fallback, rank int) int {
	return c.Dimension("attribute "+name, c.Int(name, fallback), rank)
}

// Dimension is a number from -rank to rank-1 as one from 0.
func (c *Call) Dimension(what string, axis, rank int) int {
	if axis < -rank || axis >= rank {
		c.Fail("invalid %s %d: input has %d dimensions", what, axis, rank)
	}
	if axis < 0 {
		axis += rank
	}
	return axis
}

// Dimensions are different ones, from 0.
func (c *Call) Dimensions(what string, axes []int, rank int) []int {
	out := make([]int, len(axes))
	for i, a := range axes {
		out[i] = c.Dimension(what, a, rank)
		if slices.Contains(out[:i], out[i]) {
			c.Fail("invalid %s %v: dimension %d is named twice", what, axes, out[i])
		}
	}
	return out
}

// Place is an index from -n to n-1 as one from 0.
func (c *Call) Place(index int64, n int) int {
	if index < -int64(n) || index >= int64(n) {
		c.Fail("invalid index %d: want below %d", index, n)
	}
	if index < 0 {
		index += int64(n)
	}
	return int(index)
}

// Kinds is a set of element types.
type Kinds uint32

const (
	Booleans Kinds = 1 << engine.Bool
	Unsigned Kinds = 1<<engine.Uint8 | 1<<engine.Uint16 | 1<<engine.Uint32 | 1<<engine.Uint64
	Signed   Kinds = 1<<engine.Int8 | 1<<engine.Int16 | 1<<engine.Int32 | 1<<engine.Int64
	Floats   Kinds = 1<<engine.FP16 | 1<<engine.BF16 | 1<<engine.FP32 | 1<<engine.FP64
	Integers       = Unsigned | Signed
	Numbers        = Integers | Floats
	Anything       = Numbers | Booleans
	Indices  Kinds = 1<<engine.Int32 | 1<<engine.Int64
)

// Have says whether a type is among the kinds.
func (k Kinds) Have(t engine.DType) bool { return k&(1<<t) != 0 }

func (k Kinds) List() []engine.DType {
	var out []engine.DType
	for t := engine.Bool; t <= engine.FP64; t++ {
		if k.Have(t) {
			out = append(out, t)
		}
	}
	return out
}

func (k Kinds) String() string {
	var names []string
	for _, t := range k.List() {
		names = append(names, t.String())
	}
	return strings.Join(names, ", ")
}

// Dtype is an attribute that is the number of an element type.
func (c *Call) Dtype(name string, fallback engine.DType) engine.DType {
	n, ok := Attribute[int64](c, name)
	if !ok {
		return fallback
	}
	t, ok := graph.ElementType(n)
	if !ok {
		c.Fail("invalid attribute %s: element type %d is not supported", name, n)
	}
	return t
}
