package ops

import (
	"slices"
	"strings"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// attribute is that of a name; ok is false if it is not given.
func attribute[T any](c *call, name string) (value T, ok bool) {
	v, given := c.node.Attrs[name]
	if !given {
		return value, false
	}
	value, ok = v.(T)
	if !ok {
		c.fail("attribute %s is %T, not %T", name, v, value)
	}
	return value, true
}

func (c *call) int(name string, fallback int) int {
	if v, ok := attribute[int64](c, name); ok {
		return int(v)
	}
	return fallback
}

// flag is an attribute that is 0 or 1.
func (c *call) flag(name string, fallback bool) bool {
	v := c.int(name, -1)
	if _, given := c.node.Attrs[name]; !given {
		return fallback
	}
	if v != 0 && v != 1 {
		c.fail("attribute %s is %d, not 0 or 1", name, v)
	}
	return v == 1
}

func (c *call) float(name string, fallback float64) float64 {
	if v, ok := attribute[float64](c, name); ok {
		return v
	}
	return fallback
}

// word is a string attribute, one of words; the first of them if it is not given.
func (c *call) word(name string, words ...string) string {
	v, ok := attribute[string](c, name)
	if !ok {
		return words[0]
	}
	if !slices.Contains(words, v) {
		c.fail("attribute %s is %q, not one of %s", name, v, strings.Join(words, ", "))
	}
	return v
}

// list is an attribute of integers; ok is false if it is not given.
func (c *call) list(name string) (values []int, ok bool) {
	v, ok := attribute[[]int64](c, name)
	for _, x := range v {
		values = append(values, int(x))
	}
	return values, ok
}

// axis is the attribute of this name as a dimension from 0 to rank-1.
func (c *call) axis(name string, fallback, rank int) int {
	return c.dimension("attribute "+name, c.int(name, fallback), rank)
}

// dimension is a number from -rank to rank-1 as one from 0.
func (c *call) dimension(what string, axis, rank int) int {
	if axis < -rank || axis >= rank {
		c.fail("%s is %d, of %d dimensions", what, axis, rank)
	}
	if axis < 0 {
		axis += rank
	}
	return axis
}

// dimensions are different ones, from 0.
func (c *call) dimensions(what string, axes []int, rank int) []int {
	out := make([]int, len(axes))
	for i, a := range axes {
		out[i] = c.dimension(what, a, rank)
		if slices.Contains(out[:i], out[i]) {
			c.fail("%s are %v, which name dimension %d twice", what, axes, out[i])
		}
	}
	return out
}

// kinds is a set of element types.
type kinds uint32

const (
	booleans kinds = 1 << engine.Bool
	unsigned kinds = 1<<engine.Uint8 | 1<<engine.Uint16 | 1<<engine.Uint32 | 1<<engine.Uint64
	signed   kinds = 1<<engine.Int8 | 1<<engine.Int16 | 1<<engine.Int32 | 1<<engine.Int64
	floats   kinds = 1<<engine.FP16 | 1<<engine.BF16 | 1<<engine.FP32 | 1<<engine.FP64
	integers       = unsigned | signed
	numbers        = integers | floats
	anything       = numbers | booleans
	indices  kinds = 1<<engine.Int32 | 1<<engine.Int64
)

func (k kinds) have(t engine.DType) bool { return k&(1<<t) != 0 }

func (k kinds) list() []engine.DType {
	var out []engine.DType
	for t := engine.Bool; t <= engine.FP64; t++ {
		if k.have(t) {
			out = append(out, t)
		}
	}
	return out
}

func (k kinds) String() string {
	var names []string
	for _, t := range k.list() {
		names = append(names, t.String())
	}
	return strings.Join(names, ", ")
}

// dtype is an attribute that is the number of an element type.
func (c *call) dtype(name string, fallback engine.DType) engine.DType {
	n, ok := attribute[int64](c, name)
	if !ok {
		return fallback
	}
	t, ok := graph.ElementType(n)
	if !ok {
		c.fail("attribute %s is element type %d, which is not supported", name, n)
	}
	return t
}
