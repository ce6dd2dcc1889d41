package lower

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
	"github.com/prefillonly/prefillonly/kernels"
)

// shapeLowerings are those of nodes that move elements.
func shapeLowerings() map[string]func(t *translator, n *graph.Node) *Value {
	reshape := func(t *translator, n *graph.Node) *Value {
		return t.reshape(t.translatedValue(n.In[0]), n.Out[0].Shape...)
	}
	return map[string]func(t *translator, n *graph.Node) *Value{
		"Reshape": reshape, "Flatten": reshape, "Squeeze": reshape, "Unsqueeze": reshape,
		"Expand": func(t *translator, n *graph.Node) *Value {
			return t.expand(t.translatedValue(n.In[0]), n.Out[0].Shape...)
		},
		"Transpose":    transpose,
		"Slice":        slice,
		".SliceGrad":   sliceGrad,
		"Concat":       concat,
		"Pad":          pad,
		"Tile":         tile,
		"DepthToSpace": depthToSpace,
		"SpaceToDepth": spaceToDepth,
	}
}

func transpose(t *translator, n *graph.Node) *Value {
	order := attrInts(n, "perm")
	if order == nil {
		for i := range n.In[0].Shape {
			order = append([]int{i}, order...)
		}
	}
	return t.transpose(t.translatedValue(n.In[0]), order...)
}

// axis is a dimension given from the front or from the back.
func axis(a, rank int) int {
	if a < 0 {
		return a + rank
	}
	return a
}

// slice reads starts, axes and steps; where it ends, the shape says.
func slice(t *translator, n *graph.Node) *Value {
	x := t.translatedValue(n.In[0])
	rank := len(x.Shape)
	starts, known := constantInts(n, 1)
	if !known {
		return nil
	}
	axes, steps := make([]int, len(starts)), slices.Repeat([]int{1}, len(starts))
	for i := range axes {
		axes[i] = i
	}
	for at, list := range map[int]*[]int{3: &axes, 4: &steps} {
		if n.Input(at) != nil {
			if *list, known = constantInts(n, at); !known {
				return nil
			}
		}
	}
	kind := &Slice{Start: make([]int, rank), Step: slices.Repeat([]int{1}, rank)}
	for i, a := range axes {
		d := axis(a, rank)
		kind.Start[d], kind.Step[d] = clampStart(starts[i], x.Shape[d], steps[i]), steps[i]
	}
	return t.addOp(kind, x.Type, n.Out[0].Shape, x)
}

// clampStart is where a slice of n elements starts.
func clampStart(start, n, step int) int {
	if start < 0 {
		start += n
	}
	if step < 0 {
		return min(max(start, 0), n-1)
	}
	return min(max(start, 0), n)
}

// sliceFrom is the part of v of this shape that begins at start.
func (t *translator) sliceFrom(v *Value, start, shape []int) *Value {
	return t.addOp(&Slice{Start: start, Step: slices.Repeat([]int{1}, len(shape))}, v.Type, shape, v)
}

func (t *translator) split(n *graph.Node) (parts []*Value) {
	x := t.translatedValue(n.In[0])
	d, at := axis(attrInt(n, "axis", 0), len(x.Shape)), 0
	sizes, known := constantInts(n, 1)
	for i, out := range n.Out {
		if out == nil && !known {
			return nil
		}
		shape := slices.Clone(x.Shape)
		if known {
			shape[d] = sizes[i]
		} else {
			shape[d] = out.Shape[d]
		}
		start := make([]int, len(shape))
		start[d] = at
		at += shape[d]
		if out == nil {
			parts = append(parts, nil)
			continue
		}
		part := t.sliceFrom(x, start, shape)
		part.Name, part.Type = out.Name, out.Type
		parts = append(parts, part)
	}
	return parts
}

func concat(t *translator, n *graph.Node) *Value {
	rank := len(n.Out[0].Shape)
	d, at := axis(attrInt(n, "axis", 0), rank), 0
	kind := &Assemble{}
	var in []*Value
	for _, v := range n.In {
		place := make([]int, rank)
		place[d] = at
		at += v.Shape[d]
		if v.Shape[d] > 0 {
			kind.At, in = append(kind.At, place), append(in, t.translatedValue(v))
		}
	}
	return t.addOp(kind, n.Out[0].Type, n.Out[0].Shape, in...)
}

// padSizes are the elements to add before and after each dimension.
func padSizes(n *graph.Node) (before, after []int, ok bool) {
	rank := len(n.In[0].Shape)
	list, known := constantInts(n, 1)
	if !known {
		return nil, nil, false
	}
	before, after = make([]int, rank), make([]int, rank)
	axes, given := constantInts(n, 3)
	if !given {
		for i := range rank {
			axes = append(axes, i)
		}
		if n.Input(3) != nil {
			return nil, nil, false
		}
	}
	for i, a := range axes {
		before[axis(a, rank)], after[axis(a, rank)] = list[i], list[i+len(axes)]
	}
	return before, after, true
}

// pad assembles, or takes elements by taps where those that are added are not constant.
func pad(t *translator, n *graph.Node) *Value {
	x, shape := t.translatedValue(n.In[0]), n.Out[0].Shape
	before, after, ok := padSizes(n)
	if !ok || x.Const != nil {
		return nil
	}
	mode := graph.Attr(n, "mode", "constant")
	if mode != "constant" {
		return t.padEdges(x, mode, before, shape)
	}
	kind := &Assemble{At: [][]int{make([]int, len(shape))}, Gaps: true}
	if v := n.Input(2); v != nil {
		if v.Const == nil {
			return nil
		}
		kind.Fill = float32(v.Const.Floats()[0])
	}
	start, part := make([]int, len(shape)), slices.Clone(x.Shape)
	for i := range shape {
		start[i], kind.At[0][i] = max(0, -before[i]), max(0, before[i])
		part[i] += min(0, before[i]) + min(0, after[i])
		if part[i] <= 0 {
			return nil
		}
	}
	if !slices.Equal(part, x.Shape) {
		x = t.sliceFrom(x, start, part)
	}
	return t.addOp(kind, x.Type, shape, x)
}

// padEdges repeats elements of x around it.
func (t *translator) padEdges(x *Value, mode string, before, shape []int) *Value {
	for d, size := range x.Shape {
		if before[d] == 0 && shape[d] == size {
			continue
		}
		places := paddingIndices(mode, before[d], size, shape[d])
		if places == nil {
			return nil
		}
		x = t.interpolate(x, d, pickTaps(places))
	}
	return x
}

// sliceGrad puts tensors to their places, those that overlap into tensors that are added.
func sliceGrad(t *translator, n *graph.Node) *Value {
	shape := n.Out[0].Shape
	rank, starts, steps := len(shape), attrInts(n, "starts"), attrInts(n, "steps")
	if len(starts) != rank*len(n.In) || len(steps) != len(starts) {
		return nil
	}
	var sum *Value
	for from := 0; from < len(n.In); {
		kind, taken := &Assemble{}, make([]bool, graph.Elements(shape))
		var in []*Value
		for ; from < len(n.In); from++ {
			v := t.translatedValue(n.In[from])
			at, by := starts[from*rank:(from+1)*rank], steps[from*rank:(from+1)*rank]
			if !markTaken(taken, shape, v.Shape, at, by) {
				break
			}
			kind.At, kind.Step, in = append(kind.At, at), append(kind.Step, by), append(in, v)
		}
		if len(in) == 0 {
			return nil // it leaves the shape; the host says so
		}
		kind.Gaps = slices.Contains(taken, false)
		part := t.addOp(kind, n.Out[0].Type, shape, in...)
		if sum == nil {
			sum = part
		} else {
			sum = t.addElementwise(shape, []*Value{sum, part}, func(c *programBuilder, in []int) int { return c.Op(kernels.Add, in[0], in[1]) })
		}
	}
	return sum
}

// markTaken marks the elements of a part of a shape, if none of them was marked before.
func markTaken(taken []bool, shape, part, start, step []int) bool {
	offsets := []int{0}
	for d, n := range part {
		wide := make([]int, 0, len(offsets)*n)
		for _, o := range offsets {
			for i := range n {
				at := start[d] + i*step[d]
				if at < 0 || at >= shape[d] {
					return false
				}
				wide = append(wide, o*shape[d]+at)
			}
		}
		offsets = wide
	}
	for _, o := range offsets {
		if taken[o] {
			return false
		}
	}
	for _, o := range offsets {
		taken[o] = true
	}
	return true
}

// tile repeats by broadcasting along dimensions that are put before those of x.
func tile(t *translator, n *graph.Node) *Value {
	x, out := t.translatedValue(n.In[0]), n.Out[0].Shape
	var apart, wide []int
	for d, size := range x.Shape {
		if repeats := out[d] / size; repeats > 1 {
			apart, wide = append(apart, 1), append(wide, repeats)
		}
		apart, wide = append(apart, size), append(wide, size)
	}
	if len(apart) > kernels.MaxDims {
		return nil
	}
	return t.reshape(t.expand(t.reshape(x, apart...), wide...), out...)
}

func depthToSpace(t *translator, n *graph.Node) *Value {
	x, b := t.translatedValue(n.In[0]), attrInt(n, "blocksize", 1)
	s := x.Shape
	if graph.Attr(n, "mode", "DCR") == "CRD" {
		x = t.reshape(x, s[0], s[1]/b/b, b, b, s[2], s[3])
		x = t.transpose(x, 0, 1, 4, 2, 5, 3)
	} else {
		x = t.reshape(x, s[0], b, b, s[1]/b/b, s[2], s[3])
		x = t.transpose(x, 0, 3, 4, 1, 5, 2)
	}
	return t.reshape(x, n.Out[0].Shape...)
}

func spaceToDepth(t *translator, n *graph.Node) *Value {
	x, b := t.translatedValue(n.In[0]), attrInt(n, "blocksize", 1)
	s := x.Shape
	x = t.reshape(x, s[0], s[1], s[2]/b, b, s[3]/b, b)
	return t.reshape(t.transpose(x, 0, 3, 5, 1, 2, 4), n.Out[0].Shape...)
}
