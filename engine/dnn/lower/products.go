package lower

import (
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/engine/dnn/ops/spatial"
	"github.com/prefillonly/prefillonly/kernels"
)

// filterKey tells what a filter is packed of, and how.
type filterKey struct {
	weight     *Value
	transposed bool
	spec       string
}

// packFilter adds the packing of a filter whose weights are computed, each once; those of others are none. ok is false where the
// device cannot.
func (t *translator) packFilter(f *Filter) (packed []*Value, ok bool) {
	if f.Weight.Const != nil {
		return nil, true
	}
	if t.packer == nil || f.Spec.Check() != nil || t.packer.PackedFloats(f.Spec) == 0 {
		return nil, false
	}
	weight := t.translatedValue(f.Weight)
	f.Weight = nil
	key := filterKey{weight, f.Transposed, fmt.Sprint(f.Spec.Groups, f.Spec.Kernel)}
	if t.filters[key] == nil {
		t.filters[key] = t.packWeights(weight, f)
	}
	return []*Value{t.filters[key]}, true
}

func (t *translator) packWeights(weight *Value, f *Filter) *Value {
	groups, rows := f.Spec.Groups, weight.Shape[0]/f.Spec.Groups
	shape := append([]int{groups, rows}, weight.Shape[1:]...)
	apart := t.reshape(weight, shape...)
	if f.Transposed {
		back := &Slice{Start: make([]int, len(shape)), Step: slices.Repeat([]int{1}, len(shape))}
		for i := 3; i < len(shape); i++ {
			back.Start[i], back.Step[i] = shape[i]-1, -1
		}
		apart = t.transpose(t.addOp(back, weight.Type, shape, apart), append([]int{0, 2, 1}, intRange(3, len(shape))...)...)
	}
	return t.addOp(&Pack{f.Spec}, weight.Type, []int{t.packer.PackedFloats(f.Spec)}, apart)
}

// convByProducts is a convolution whose filter, [out, in of a group, kernel], is computed: for each group a product of matrices, of
// what the taps read for each place, and the filter.
func (t *translator) convByProducts(x, filter *Value, w spatial.Window, out []int) *Value {
	taps := t.tapsOf(x, w, out)
	inputs := filter.Shape[1]
	groups := x.Shape[1] / inputs
	outputs := filter.Shape[0] / groups
	filter = t.reshape(filter, filter.Shape[0], inputs, len(taps))
	if inputs == 1 {
		return t.channelByChannel(taps, filter, out)
	}
	parts := make([]*Value, groups)
	for g := range groups {
		read := make([]*Value, len(taps))
		for i, tap := range taps {
			read[i] = t.partAlong(tap, 1, g*inputs, inputs)
		}
		rows := t.channelsLast(t.join(read, 1))
		columns := t.transpose(t.partAlong(filter, 0, g*outputs, outputs), 2, 1, 0)
		product := t.multiplyMatrices(t.reshape(rows, graph.Elements(rows.Shape[:len(out)-1]), len(taps)*inputs), t.reshape(columns, len(taps)*inputs, outputs))
		parts[g] = t.channelsFirst(t.reshape(product, append(slices.Clone(rows.Shape[:len(out)-1]), outputs)...))
	}
	return t.join(parts, 1)
}

// channelByChannel is a convolution each of whose outputs is of one input: a sum of products for each tap.
func (t *translator) channelByChannel(taps []*Value, filter *Value, out []int) *Value {
	groups := taps[0].Shape[1]
	outputs := filter.Shape[0] / groups
	apart := slices.Concat(out[:1], []int{groups, outputs}, out[2:])
	var sum *Value
	for i, tap := range taps {
		weight := t.reshape(t.partAlong(filter, 2, i, 1), slices.Concat([]int{1, groups, outputs}, slices.Repeat([]int{1}, len(out)-2))...)
		in := []*Value{t.reshape(tap, slices.Concat(out[:1], []int{groups, 1}, out[2:])...), weight}
		if sum != nil {
			in = append(in, sum)
		}
		sum = t.addElementwise(apart, in, func(c *programBuilder, in []int) int {
			product := c.Op(kernels.Mul, in[0], in[1])
			if len(in) > 2 {
				return c.Op(kernels.Add, in[2], product)
			}
			return product
		})
	}
	return t.reshape(sum, out...)
}

// transposedByProducts is a transposed convolution whose filter is computed: zeros between the elements of x make it a convolution
// without strides, by the filter turned round.
func (t *translator) transposedByProducts(x, filter *Value, w spatial.Window, groups int, out []int) *Value {
	wide, back := slices.Clone(x.Shape), &Slice{Start: make([]int, len(out)), Step: slices.Repeat([]int{1}, len(out))}
	gaps := &Assemble{At: [][]int{make([]int, len(out))}, Step: [][]int{slices.Repeat([]int{1}, len(out))}, Gaps: true}
	forward := spatial.Window{Kernel: w.Kernel, Dilations: w.Dilations, Strides: slices.Repeat([]int{1}, len(w.Kernel))}
	for i, k := range w.Kernel {
		wide[i+2] = (x.Shape[i+2]-1)*w.Strides[i] + 1
		gaps.Step[0][i+2] = w.Strides[i]
		back.Start[i+2], back.Step[i+2] = k-1, -1
		forward.Before = append(forward.Before, (k-1)*w.Dilations[i]-w.Before[i])
	}
	if !slices.Equal(wide, x.Shape) {
		x = t.addOp(gaps, x.Type, wide, x)
	}
	filter = t.addOp(back, filter.Type, filter.Shape, filter)
	inputs, outputs := filter.Shape[0]/groups, filter.Shape[1]
	filter = t.reshape(filter, slices.Concat([]int{groups, inputs, outputs}, w.Kernel)...)
	filter = t.transpose(filter, append([]int{0, 2, 1}, intRange(3, len(filter.Shape))...)...)
	return t.convByProducts(x, t.reshape(filter, slices.Concat([]int{groups * outputs, inputs}, w.Kernel)...), forward, out)
}

// tapsOf are what each tap of a window, row-major, reads of x, for each place of the result.
func (t *translator) tapsOf(x *Value, w spatial.Window, out []int) []*Value {
	dims := len(w.Kernel)
	padding := &Assemble{At: [][]int{make([]int, dims+2)}, Gaps: true}
	shape := slices.Clone(x.Shape)
	for i, k := range w.Kernel {
		before := max(0, w.Before[i])
		covered := (out[i+2]-1)*w.Strides[i] + (k-1)*w.Dilations[i] + 1
		padding.At[0][i+2] = before
		shape[i+2] += before + max(0, covered-w.Before[i]-x.Shape[i+2])
	}
	if !slices.Equal(shape, x.Shape) {
		x = t.addOp(padding, x.Type, shape, x)
	}
	taps := make([]*Value, graph.Elements(w.Kernel))
	for tap := range taps {
		kind := &Slice{Start: make([]int, dims+2), Step: slices.Repeat([]int{1}, dims+2)}
		for i, rest := dims-1, tap; i >= 0; i-- {
			kind.Start[i+2] = max(0, -w.Before[i]) + rest%w.Kernel[i]*w.Dilations[i]
			kind.Step[i+2] = w.Strides[i]
			rest /= w.Kernel[i]
		}
		if len(taps) == 1 && slices.Equal(x.Shape[2:], out[2:]) {
			return []*Value{x}
		}
		taps[tap] = t.addOp(kind, x.Type, slices.Concat(x.Shape[:2], out[2:]), x)
	}
	return taps
}

// partAlong is [from, from+size) of v along a dimension.
func (t *translator) partAlong(v *Value, d, from, size int) *Value {
	if size == v.Shape[d] {
		return v
	}
	start, shape := make([]int, len(v.Shape)), slices.Clone(v.Shape)
	start[d], shape[d] = from, size
	return t.sliceFrom(v, start, shape)
}

// join puts values behind each other along a dimension.
func (t *translator) join(parts []*Value, d int) *Value {
	if len(parts) == 1 {
		return parts[0]
	}
	kind, shape, at := &Assemble{}, slices.Clone(parts[0].Shape), 0
	for _, v := range parts {
		place := make([]int, len(shape))
		place[d] = at
		kind.At = append(kind.At, place)
		at += v.Shape[d]
	}
	shape[d] = at
	return t.addOp(kind, parts[0].Type, shape, parts...)
}

// channelsLast is an image [N, C, spatial...] as [N, spatial..., C]; channelsFirst is the way back.
func (t *translator) channelsLast(v *Value) *Value {
	rank := len(v.Shape)
	return t.transpose(v, append(append([]int{0}, intRange(2, rank)...), 1)...)
}

func (t *translator) channelsFirst(v *Value) *Value {
	rank := len(v.Shape)
	return t.transpose(v, append([]int{0, rank - 1}, intRange(1, rank-1)...)...)
}
