package specialize

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// Rules of operations that move elements.

func batchConcat(b *batcher, n *graph.Node) ([]int, error) {
	axis := -1
	for i := range n.In {
		if a, ok := b.frameAxis(n, i); ok {
			if axis >= 0 && a != axis {
				return nil, errors.New("it joins values whose frames are along different axes")
			}
			axis = a
		}
	}
	for i, v := range n.In {
		if _, ok := b.frameAxis(n, i); !ok {
			whole, err := b.repeatFrames(v, axis)
			if err != nil {
				return nil, err
			}
			n.In[i] = whole
		}
	}
	return []int{axis}, checkApart(axis, dimensionIndex(graph.Attr(n, "axis", int64(0)), len(b.one[n.Out[0]])))
}

// batchExpand: the shape says 1, or the size of one frame, for the axis of frames.
func batchExpand(b *batcher, n *graph.Node) ([]int, error) {
	axis, err := b.onlyFirst(n)
	if err != nil {
		return nil, err
	}
	shape, ok := constantIntegers(n, 1)
	if !ok {
		return nil, errors.New("its shape is not a constant")
	}
	size := int64(b.one[n.In[0]][axis])
	axis += len(b.one[n.Out[0]]) - len(b.one[n.In[0]])
	if own := axis - len(b.one[n.Out[0]]) + len(shape); own >= 0 {
		if shape[own] != 1 && shape[own] != size {
			return nil, errors.New("it repeats frames")
		}
		shape[own] = size * int64(b.frames)
		b.setIntegers(n, 1, shape)
	}
	return []int{axis}, nil
}

func batchTile(b *batcher, n *graph.Node) ([]int, error) {
	axis, err := b.onlyFirst(n)
	if err != nil {
		return nil, err
	}
	if times, ok := constantIntegers(n, 1); !ok || times[axis] != 1 {
		return nil, errors.New("it repeats frames")
	}
	return []int{axis}, nil
}

func batchGather(b *batcher, n *graph.Node) ([]int, error) {
	rank, places := len(b.one[n.In[0]]), len(b.one[n.In[1]])
	along := dimensionIndex(graph.Attr(n, "axis", int64(0)), rank)
	axis, data := b.frameAxis(n, 0)
	index, indices := b.frameAxis(n, 1)
	switch {
	case data && indices:
		return nil, errors.New("both its data and its indices depend on the frame")
	case indices:
		return []int{along + index}, nil
	case axis > along:
		return []int{axis - 1 + places}, nil
	}
	return []int{axis}, checkApart(axis, along)
}

func batchPad(b *batcher, n *graph.Node) ([]int, error) {
	axis, err := b.onlyFirst(n)
	if err != nil {
		return nil, err
	}
	pads, ok := constantIntegers(n, 1)
	if !ok {
		return nil, errors.New("its pads are not constant")
	}
	rank := len(b.one[n.In[0]])
	axes := allAxes(rank)
	if n.Input(3) != nil {
		if axes, ok = constantIntegers(n, 3); !ok {
			return nil, errors.New("its axes are not constant")
		}
	}
	for i, a := range axes {
		if dimensionIndex(a, rank) == axis && (pads[i] != 0 || pads[i+len(axes)] != 0) {
			return nil, errors.New("it pads the axis of frames")
		}
	}
	return []int{axis}, nil
}

// allAxes are the numbers of so many dimensions.
func allAxes(rank int) []int64 {
	axes := make([]int64, rank)
	for i := range axes {
		axes[i] = int64(i)
	}
	return axes
}

func batchResize(b *batcher, n *graph.Node) ([]int, error) {
	axis, err := b.onlyFirst(n)
	if err != nil {
		return nil, err
	}
	if n.Input(1) != nil {
		return nil, errors.New("its roi is not supported")
	}
	axes := graph.Attr(n, "axes", allAxes(len(b.one[n.In[0]])))
	at := slices.IndexFunc(axes, func(a int64) bool { return dimensionIndex(a, len(b.one[n.In[0]])) == axis })
	size := b.one[n.In[0]][axis]
	if b.one[n.Out[0]][axis] != size {
		return nil, errors.New("it resizes the axis of frames")
	}
	if sizes, ok := constantIntegers(n, 3); ok && at >= 0 {
		sizes[at] = int64(size * b.frames)
		b.setIntegers(n, 3, sizes)
	}
	return []int{axis}, nil
}

// batchSlice: all of the axis of frames.
func batchSlice(b *batcher, n *graph.Node) ([]int, error) {
	axis, err := b.onlyFirst(n)
	if err != nil {
		return nil, err
	}
	axes := allAxes(len(b.one[n.Input(1)]))
	if starts, ok := constantIntegers(n, 1); ok {
		axes = allAxes(len(starts))
	}
	if n.Input(3) != nil {
		var ok bool
		if axes, ok = constantIntegers(n, 3); !ok {
			return nil, errors.New("its axes are not constant")
		}
	}
	rank := len(b.one[n.In[0]])
	at := slices.IndexFunc(axes, func(a int64) bool { return dimensionIndex(a, rank) == axis })
	if at < 0 {
		return []int{axis}, nil
	}
	starts, ok1 := constantIntegers(n, 1)
	ends, ok2 := constantIntegers(n, 2)
	steps, given := constantIntegers(n, 4)
	if !ok1 || !ok2 || starts[at] != 0 || ends[at] < int64(b.one[n.In[0]][axis]) || given && steps[at] != 1 {
		return nil, errors.New("it takes a part of the frames")
	}
	ends[at] = math.MaxInt64
	if n.In[2].Const.Type.Size() == 4 {
		ends[at] = math.MaxInt32
	}
	b.setIntegers(n, 2, ends)
	return []int{axis}, nil
}

func batchTranspose(b *batcher, n *graph.Node) ([]int, error) {
	axis, rank := b.axis[n.In[0]], len(b.one[n.In[0]])
	perm, ok := n.Attrs["perm"].([]int64)
	if !ok {
		return []int{rank - 1 - axis}, nil
	}
	return []int{slices.Index(perm, int64(axis))}, nil
}

// batchReshape: the elements stay in their order. Frames are the outermost of a dimension that has as many elements
// ahead of it, of one frame, as there were before; of several, one that is 1 is meant for frames.
func batchReshape(b *batcher, n *graph.Node) ([]int, error) {
	was, now := b.one[n.In[0]], b.one[n.Out[0]]
	axis := b.axis[n.In[0]]
	ahead := graph.Elements(was[:axis])
	best := -1
	for i := range now {
		if graph.Elements(now[:i]) == ahead && (best < 0 || now[i] == 1 && (now[best] != 1 || i == axis)) {
			best = i
		}
	}
	if best < 0 {
		return nil, fmt.Errorf("it makes %v of %v, where frames are along axis %d", now, was, axis)
	}
	shape := make([]int64, len(now))
	for i, d := range now {
		shape[i] = int64(d)
	}
	shape[best] *= int64(b.frames)
	n.Op, n.Attrs = "Reshape", graph.Attrs{"allowzero": int64(1)}
	n.In = []*graph.Value{n.In[0], b.build.Const("shape", graph.Vector(shape...))}
	return []int{best}, nil
}
