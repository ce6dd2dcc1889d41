package specialize

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// batchRule changes a node, of which some input depends on frames, and says along which axis the frames of each
// output are; of further outputs as of the last.
type batchRule func(b *batcher, n *graph.Node) ([]int, error)

// batchRules are those of the operations that are known to compute each frame alone.
var batchRules = map[string]batchRule{
	"ArgMax": besideAxis, "ArgMin": besideAxis, "CumSum": alongInput, "Concat": concatenated, "Expand": expanded,
	"Flatten": reshaped, "Gather": gathered, "Gemm": multipliedRows, "GRU": recurrent, "Hardmax": besideAxis, "LSTM": recurrent,
	"LayerNormalization": aheadOfAxis, "LogSoftmax": besideAxis, "MatMul": multiplied, "Pad": padded, "RNN": recurrent,
	"Reshape": reshaped, "Resize": resized, "Slice": sliced, "Softmax": besideAxis, "Split": besideAxis, "Squeeze": reshaped,
	"Tile": tiled, "TopK": besideAxis, "Transpose": transposed, "Unsqueeze": reshaped,
}

func init() {
	for _, op := range []string{
		"Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitwiseAnd", "BitwiseNot", "BitwiseOr",
		"BitwiseXor", "Cast", "Ceil", "Celu", "Clip", "Cos", "Cosh", "Div", "Elu", "Equal", "Erf", "Exp", "Floor", "Gelu", "Greater",
		"GreaterOrEqual", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Less", "LessOrEqual", "Log",
		"Max", "Mean", "Min", "Mish", "Mod", "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal", "Relu", "Round", "Selu",
		"Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Tan", "Tanh", "ThresholdedRelu",
		"Where", "Xor",
	} {
		batchRules[op] = elementwise
	}
	for _, op := range []string{
		"AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "DepthToSpace", "GlobalAveragePool", "GlobalLpPool",
		"GlobalMaxPool", "GroupNormalization", "InstanceNormalization", "LRN", "LpPool", "MaxPool", "SpaceToDepth",
	} {
		batchRules[op] = eachImage
	}
	for _, op := range []string{
		"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
		"ReduceSum", "ReduceSumSquare",
	} {
		batchRules[op] = reduced
	}
}

// elementwise: inputs are broadcast to each other, so their axes are counted from the end.
func elementwise(b *batcher, n *graph.Node) ([]int, error) {
	rank := len(b.one[n.Out[0]])
	axis := -1
	for i, v := range n.In {
		if a, ok := b.of(n, i); ok {
			if a += rank - len(b.one[v]); axis >= 0 && axis != a {
				return nil, errors.New("it joins values whose frames are along different axes")
			} else {
				axis = a
			}
		}
	}
	for i, v := range n.In {
		if v == nil {
			continue
		}
		own := axis - rank + len(b.one[v]) // where that axis is in this input
		if own < 0 || b.one[v][own] == 1 && b.one[n.Out[0]][axis] > 1 {
			if _, ok := b.of(n, i); ok {
				return nil, errors.New("it repeats frames")
			}
		}
		if _, ok := b.of(n, i); ok || own < 0 || b.one[v][own] == 1 {
			continue
		}
		whole, err := b.repeated(v, own)
		if err != nil {
			return nil, err
		}
		n.In[i] = whole
	}
	return []int{axis}, nil
}

// eachImage: the first dimension is that of images, and of each is computed the same.
func eachImage(b *batcher, n *graph.Node) ([]int, error) {
	axis, err := b.onlyFirst(n)
	switch {
	case err != nil:
		return nil, err
	case axis != 0:
		return nil, fmt.Errorf("the frames are along axis %d, and not the first", axis)
	case n.Output(1) != nil:
		return nil, errors.New("its output 1 is of all images together")
	case graph.Attr(n, "training_mode", int64(0)) != 0:
		return nil, errors.New("it is of all images together")
	}
	return []int{0}, nil
}

// apart refuses an operation along the axis of frames.
func apart(axis, along int) error {
	if axis == along {
		return fmt.Errorf("it works along axis %d, which is that of frames", axis)
	}
	return nil
}

// besideAxis: along the dimension that attribute axis names, others are apart.
func besideAxis(b *batcher, n *graph.Node) ([]int, error) {
	axis, err := b.onlyFirst(n)
	if err != nil {
		return nil, err
	}
	fallback := int64(-1)
	if slices.Contains([]string{"ArgMax", "ArgMin", "Split"}, n.Op) {
		fallback = 0
	}
	along := place(graph.Attr(n, "axis", fallback), len(b.one[n.In[0]]))
	if graph.Attr(n, "keepdims", int64(1)) == 0 && along < axis {
		return []int{axis - 1}, apart(axis, along)
	}
	return []int{axis}, apart(axis, along)
}

func alongInput(b *batcher, n *graph.Node) ([]int, error) {
	axis, err := b.onlyFirst(n)
	if err != nil {
		return nil, err
	}
	along, ok := integers(n, 1)
	if !ok || len(along) != 1 {
		return nil, errors.New("its axis is no constant")
	}
	return []int{axis}, apart(axis, place(along[0], len(b.one[n.In[0]])))
}

// aheadOfAxis: the dimensions from an axis on are one.
func aheadOfAxis(b *batcher, n *graph.Node) ([]int, error) {
	axis, err := b.onlyFirst(n)
	if err == nil && axis >= place(graph.Attr(n, "axis", int64(-1)), len(b.one[n.In[0]])) {
		err = errors.New("it works along the axis of frames")
	}
	return []int{axis}, err
}

func concatenated(b *batcher, n *graph.Node) ([]int, error) {
	axis := -1
	for i := range n.In {
		if a, ok := b.of(n, i); ok {
			if axis >= 0 && a != axis {
				return nil, errors.New("it joins values whose frames are along different axes")
			}
			axis = a
		}
	}
	for i, v := range n.In {
		if _, ok := b.of(n, i); !ok {
			whole, err := b.repeated(v, axis)
			if err != nil {
				return nil, err
			}
			n.In[i] = whole
		}
	}
	return []int{axis}, apart(axis, place(graph.Attr(n, "axis", int64(0)), len(b.one[n.Out[0]])))
}

// expanded: the shape says 1, or the size of one frame, for the axis of frames.
func expanded(b *batcher, n *graph.Node) ([]int, error) {
	axis, err := b.onlyFirst(n)
	if err != nil {
		return nil, err
	}
	shape, ok := integers(n, 1)
	if !ok {
		return nil, errors.New("its shape is no constant")
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

func tiled(b *batcher, n *graph.Node) ([]int, error) {
	axis, err := b.onlyFirst(n)
	if err != nil {
		return nil, err
	}
	if times, ok := integers(n, 1); !ok || times[axis] != 1 {
		return nil, errors.New("it repeats frames")
	}
	return []int{axis}, nil
}

func gathered(b *batcher, n *graph.Node) ([]int, error) {
	rank, places := len(b.one[n.In[0]]), len(b.one[n.In[1]])
	along := place(graph.Attr(n, "axis", int64(0)), rank)
	axis, data := b.of(n, 0)
	index, indices := b.of(n, 1)
	switch {
	case data && indices:
		return nil, errors.New("both its data and its indices depend on the frame")
	case indices:
		return []int{along + index}, nil
	case axis > along:
		return []int{axis - 1 + places}, nil
	}
	return []int{axis}, apart(axis, along)
}

// multiplied: frames are along a dimension of matrices, along the rows of the first or the columns of the second.
func multiplied(b *batcher, n *graph.Node) ([]int, error) {
	rank := len(b.one[n.Out[0]])
	axis := -1
	for i, v := range n.In {
		own, ok := b.of(n, i)
		if !ok {
			continue
		}
		left := len(b.one[v]) - own // dimensions from there on
		switch {
		case len(b.one[v]) < 2, left == 1+i:
			return nil, errors.New("it sums over the axis of frames")
		case axis >= 0 && (axis != rank-left || left <= 2):
			return nil, errors.New("it multiplies frames by each other")
		}
		axis = rank - left
	}
	if axis >= rank-2 {
		return []int{axis}, nil
	}
	for i, v := range n.In {
		own := axis - rank + len(b.one[v])
		if _, ok := b.of(n, i); ok || own < 0 || b.one[v][own] == 1 {
			continue
		}
		whole, err := b.repeated(v, own)
		if err != nil {
			return nil, err
		}
		n.In[i] = whole
	}
	return []int{axis}, nil
}

func multipliedRows(b *batcher, n *graph.Node) ([]int, error) {
	axis, err := b.onlyFirst(n)
	if err != nil {
		return nil, err
	}
	if axis != int(graph.Attr(n, "transA", int64(0))) {
		return nil, errors.New("it sums over the axis of frames")
	}
	if c := n.Input(2); c != nil && len(b.one[c]) == 2 && b.one[c][0] != 1 {
		n.In[2], err = b.repeated(c, 0)
	}
	return []int{0}, err
}

func padded(b *batcher, n *graph.Node) ([]int, error) {
	axis, err := b.onlyFirst(n)
	if err != nil {
		return nil, err
	}
	pads, ok := integers(n, 1)
	if !ok {
		return nil, errors.New("its pads are no constant")
	}
	rank := len(b.one[n.In[0]])
	axes := allAxes(rank)
	if n.Input(3) != nil {
		if axes, ok = integers(n, 3); !ok {
			return nil, errors.New("its axes are no constant")
		}
	}
	for i, a := range axes {
		if place(a, rank) == axis && (pads[i] != 0 || pads[i+len(axes)] != 0) {
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

func resized(b *batcher, n *graph.Node) ([]int, error) {
	axis, err := b.onlyFirst(n)
	if err != nil {
		return nil, err
	}
	if n.Input(1) != nil {
		return nil, errors.New("its roi is not supported")
	}
	axes := graph.Attr(n, "axes", allAxes(len(b.one[n.In[0]])))
	at := slices.IndexFunc(axes, func(a int64) bool { return place(a, len(b.one[n.In[0]])) == axis })
	size := b.one[n.In[0]][axis]
	if b.one[n.Out[0]][axis] != size {
		return nil, errors.New("it resizes the axis of frames")
	}
	if sizes, ok := integers(n, 3); ok && at >= 0 {
		sizes[at] = int64(size * b.frames)
		b.setIntegers(n, 3, sizes)
	}
	return []int{axis}, nil
}

// sliced: all of the axis of frames.
func sliced(b *batcher, n *graph.Node) ([]int, error) {
	axis, err := b.onlyFirst(n)
	if err != nil {
		return nil, err
	}
	axes := allAxes(len(b.one[n.Input(1)]))
	if starts, ok := integers(n, 1); ok {
		axes = allAxes(len(starts))
	}
	if n.Input(3) != nil {
		var ok bool
		if axes, ok = integers(n, 3); !ok {
			return nil, errors.New("its axes are no constant")
		}
	}
	rank := len(b.one[n.In[0]])
	at := slices.IndexFunc(axes, func(a int64) bool { return place(a, rank) == axis })
	if at < 0 {
		return []int{axis}, nil
	}
	starts, ok1 := integers(n, 1)
	ends, ok2 := integers(n, 2)
	steps, given := integers(n, 4)
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

func transposed(b *batcher, n *graph.Node) ([]int, error) {
	axis, rank := b.axis[n.In[0]], len(b.one[n.In[0]])
	perm, ok := n.Attrs["perm"].([]int64)
	if !ok {
		return []int{rank - 1 - axis}, nil
	}
	return []int{slices.Index(perm, int64(axis))}, nil
}

func reduced(b *batcher, n *graph.Node) ([]int, error) {
	axis, err := b.onlyFirst(n)
	if err != nil {
		return nil, err
	}
	rank := len(b.one[n.In[0]])
	axes, ok := integers(n, 1)
	if !ok || len(axes) == 0 {
		axes = allAxes(rank)
	}
	before := 0
	for _, a := range axes {
		if err := apart(axis, place(a, rank)); err != nil {
			return nil, err
		}
		if place(a, rank) < axis {
			before++
		}
	}
	if graph.Attr(n, "keepdims", int64(1)) != 0 {
		before = 0
	}
	return []int{axis - before}, nil
}

// recurrent: the batch is dimension 1 of the input and of states.
func recurrent(b *batcher, n *graph.Node) ([]int, error) {
	if axis, ok := b.of(n, 0); !ok || axis != 1 || n.Input(4) != nil || graph.Attr(n, "layout", int64(0)) != 0 {
		return nil, errors.New("the frames are not its batch")
	}
	for i := 1; i < len(n.In); i++ {
		axis, ok := b.of(n, i)
		state := i == 5 || i == 6
		switch {
		case ok && (!state || axis != 1):
			return nil, fmt.Errorf("its input %d depends on the frame", i)
		case !ok && state && n.In[i] != nil:
			whole, err := b.repeated(n.In[i], 1)
			if err != nil {
				return nil, err
			}
			n.In[i] = whole
		}
	}
	return []int{2, 1}, nil
}

// reshaped: the elements stay in their order. Frames are the outermost of a dimension that has as many elements
// ahead of it, of one frame, as there were before; of several, one that is 1 is meant for frames.
func reshaped(b *batcher, n *graph.Node) ([]int, error) {
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
