package specialize

import (
	"errors"
	"fmt"
	"slices"

	"github.com/prefillonly/prefillonly/engine/dnn/graph"
)

// batchRule changes a node, of which some input depends on frames, and says along which axis the frames of each
// output are; of further outputs as of the last.
type batchRule func(b *batcher, n *graph.Node) ([]int, error)

// batchRules are those of the operations that are known to compute each frame alone.
var batchRules = map[string]batchRule{
	"ArgMax": besideAxis, "ArgMin": besideAxis, "CumSum": alongInput, "Concat": batchConcat, "Expand": batchExpand,
	"Flatten": batchReshape, "Gather": batchGather, "Gemm": multipliedRows, "GRU": batchRecurrent, "Hardmax": besideAxis, "LSTM": batchRecurrent,
	"LayerNormalization": aheadOfAxis, "LogSoftmax": besideAxis, "MatMul": batchMatMul, "Pad": batchPad, "RNN": batchRecurrent,
	"Reshape": batchReshape, "Resize": batchResize, "Slice": batchSlice, "Softmax": besideAxis, "Split": besideAxis, "Squeeze": batchReshape,
	"Tile": batchTile, "TopK": besideAxis, "Transpose": batchTranspose, "Unsqueeze": batchReshape,
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
		batchRules[op] = batchElementwise
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
		batchRules[op] = batchReduce
	}
}

// batchElementwise: inputs are broadcast to each other, so their axes are counted from the end.
func batchElementwise(b *batcher, n *graph.Node) ([]int, error) {
	rank := len(b.one[n.Out[0]])
	axis := -1
	for i, v := range n.In {
		if a, ok := b.frameAxis(n, i); ok {
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
			if _, ok := b.frameAxis(n, i); ok {
				return nil, errors.New("it repeats frames")
			}
		}
		if _, ok := b.frameAxis(n, i); ok || own < 0 || b.one[v][own] == 1 {
			continue
		}
		whole, err := b.repeatFrames(v, own)
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

// checkApart refuses an operation along the axis of frames.
func checkApart(axis, along int) error {
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
	along := dimensionIndex(graph.Attr(n, "axis", fallback), len(b.one[n.In[0]]))
	if graph.Attr(n, "keepdims", int64(1)) == 0 && along < axis {
		return []int{axis - 1}, checkApart(axis, along)
	}
	return []int{axis}, checkApart(axis, along)
}

func alongInput(b *batcher, n *graph.Node) ([]int, error) {
	axis, err := b.onlyFirst(n)
	if err != nil {
		return nil, err
	}
	along, ok := constantIntegers(n, 1)
	if !ok || len(along) != 1 {
		return nil, errors.New("its axis is not a constant")
	}
	return []int{axis}, checkApart(axis, dimensionIndex(along[0], len(b.one[n.In[0]])))
}

// aheadOfAxis: the dimensions from an axis on are one.
func aheadOfAxis(b *batcher, n *graph.Node) ([]int, error) {
	axis, err := b.onlyFirst(n)
	if err == nil && axis >= dimensionIndex(graph.Attr(n, "axis", int64(-1)), len(b.one[n.In[0]])) {
		err = errors.New("it works along the axis of frames")
	}
	return []int{axis}, err
}

// batchMatMul: frames are along a dimension of matrices, along the rows of the first or the columns of the second.
func batchMatMul(b *batcher, n *graph.Node) ([]int, error) {
	rank := len(b.one[n.Out[0]])
	axis := -1
	for i, v := range n.In {
		own, ok := b.frameAxis(n, i)
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
		if _, ok := b.frameAxis(n, i); ok || own < 0 || b.one[v][own] == 1 {
			continue
		}
		whole, err := b.repeatFrames(v, own)
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
		n.In[2], err = b.repeatFrames(c, 0)
	}
	return []int{0}, err
}

func batchReduce(b *batcher, n *graph.Node) ([]int, error) {
	axis, err := b.onlyFirst(n)
	if err != nil {
		return nil, err
	}
	rank := len(b.one[n.In[0]])
	axes, ok := constantIntegers(n, 1)
	if !ok || len(axes) == 0 {
		axes = allAxes(rank)
	}
	before := 0
	for _, a := range axes {
		if err := checkApart(axis, dimensionIndex(a, rank)); err != nil {
			return nil, err
		}
		if dimensionIndex(a, rank) < axis {
			before++
		}
	}
	if graph.Attr(n, "keepdims", int64(1)) != 0 {
		before = 0
	}
	return []int{axis - before}, nil
}

// batchRecurrent: the batch is dimension 1 of the input and of states.
func batchRecurrent(b *batcher, n *graph.Node) ([]int, error) {
	if axis, ok := b.frameAxis(n, 0); !ok || axis != 1 || n.Input(4) != nil || graph.Attr(n, "layout", int64(0)) != 0 {
		return nil, errors.New("the frames are not its batch")
	}
	for i := 1; i < len(n.In); i++ {
		axis, ok := b.frameAxis(n, i)
		state := i == 5 || i == 6
		switch {
		case ok && (!state || axis != 1):
			return nil, fmt.Errorf("its input %d depends on the frame", i)
		case !ok && state && n.In[i] != nil:
			whole, err := b.repeatFrames(n.In[i], 1)
			if err != nil {
				return nil, err
			}
			n.In[i] = whole
		}
	}
	return []int{2, 1}, nil
}
