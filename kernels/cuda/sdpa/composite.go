package sdpa

import "github.com/prefillonly/prefillonly/kernels/cuda/cudnn"

// composite is attention in the operations that cuDNN recognises as such: as its own frontend writes them.
type composite struct {
	*graph
	uid  int64 // of the next tensor
	list []cudnn.Descriptor
}

func newComposite(g *graph) *composite { return &composite{graph: g, uid: uidVirtual} }

// newIntermediate is a tensor between operations.
func (c *composite) newIntermediate(t cudnn.DataType, dims []int64, strides ...int64) cudnn.Descriptor {
	c.uid++
	return c.newVirtualTensor(c.uid-1, t, dims, strides...)
}

// newScoreTensor is a number for each query and key, narrow one for each query.
func (c *composite) newScoreTensor(t cudnn.DataType) cudnn.Descriptor {
	return c.newIntermediate(t, c.perScore())
}

func (c *composite) newQueryTensor() cudnn.Descriptor {
	return c.newIntermediate(cudnn.Float, []int64{int64(c.Batch), int64(c.QHeads), int64(c.Bucket.Rows), 1})
}

func (c *composite) addOperation(operation cudnn.Descriptor) {
	c.list = append(c.list, c.Finalize(operation))
}

// addPointwise is an operation on single numbers, whose result is y.
func (c *composite) addPointwise(p cudnn.Pointwise, y cudnn.Descriptor) cudnn.Descriptor {
	p.Y = y
	c.list = append(c.list, c.Pointwise(p))
	return y
}

func (c *composite) addReduction(how cudnn.ReductionOperator, x cudnn.Descriptor) cudnn.Descriptor {
	r, o, y := c.Make(cudnn.ReductionType), c.Make(cudnn.OperationReductionType), c.newQueryTensor()
	c.Kind(r, cudnn.ReductionPrecision, cudnn.Float)
	c.Kind(r, cudnn.ReductionOperatorOf, how)
	c.Parts(o, cudnn.OperationReductionHow, c.Finalize(r))
	c.Parts(o, cudnn.OperationReductionX, x)
	c.Parts(o, cudnn.OperationReductionY, y)
	c.addOperation(o)
	return y
}

// addMatmul is y = a b, of as many rows as a sequence has, and as many columns or summands (which: the attribute) as
// it has keys.
func (c *composite) addMatmul(a, b, y cudnn.Descriptor, which cudnn.Attribute) cudnn.Descriptor {
	how, o := c.Make(cudnn.MatmulType), c.Make(cudnn.OperationMatmulType)
	c.Kind(how, cudnn.MatmulPrecision, cudnn.Float)
	c.Parts(o, cudnn.OperationMatmulA, a)
	c.Parts(o, cudnn.OperationMatmulB, b)
	c.Parts(o, cudnn.OperationMatmulC, y)
	c.Parts(o, cudnn.OperationMatmulHow, c.Finalize(how))
	c.Parts(o, cudnn.OperationMatmulM, c.rows)
	c.Parts(o, which, c.keys)
	c.addOperation(o)
	return y
}

// load is a sequence's keys or values in order.
func (c *composite) load(pages cudnn.Descriptor, dims, strides []int64) cudnn.Descriptor {
	o, y := c.Make(cudnn.OperationPagedCacheLoadType), c.newIntermediate(cudnn.BFloat16, dims, strides...)
	c.Parts(o, cudnn.PagedCacheLoadFrom, pages)
	c.Parts(o, cudnn.PagedCacheLoadTable, c.table)
	c.Parts(o, cudnn.PagedCacheLoadSequence, c.keys)
	c.Parts(o, cudnn.PagedCacheLoadY, y)
	c.addOperation(o)
	return y
}

// numberOf is the number of each score's row (axis 2) or key (axis 3).
func (c *composite) numberOf(axis int64, score cudnn.Descriptor) cudnn.Descriptor {
	return c.addPointwise(cudnn.Pointwise{Mode: cudnn.PointwiseGenIndex, Precision: cudnn.Int32, Axis: axis, X: score}, c.newScoreTensor(cudnn.Int32))
}

func (c *composite) addCompare(how cudnn.PointwiseMode, x, b cudnn.Descriptor) cudnn.Descriptor {
	return c.addPointwise(cudnn.Pointwise{Mode: how, Precision: cudnn.Boolean, X: x, B: b}, c.newScoreTensor(cudnn.Boolean))
}

// addSelect is the score where the condition holds.
func (c *composite) addSelect(score, condition cudnn.Descriptor) cudnn.Descriptor {
	return c.addPointwise(cudnn.Pointwise{Mode: cudnn.PointwiseBinarySelect, Precision: cudnn.Float, X: score, B: c.masked, T: condition}, c.newScoreTensor(cudnn.Float))
}

func (c *composite) addInt32Pointwise(how cudnn.PointwiseMode, number, by cudnn.Descriptor) cudnn.Descriptor {
	return c.addPointwise(cudnn.Pointwise{Mode: how, Precision: cudnn.Int32, Axis: 3, X: number, B: by}, c.newScoreTensor(cudnn.Int32))
}

// addMasks what is outside the sequence, then the keys after a query, then those before its window.
func (c *composite) addMasks(score cudnn.Descriptor) cudnn.Descriptor {
	row, key := c.numberOf(2, score), c.numberOf(3, score)
	inRows, inKeys := c.addCompare(cudnn.PointwiseLess, row, c.rows), c.addCompare(cudnn.PointwiseLess, key, c.keys)
	score = c.addSelect(score, c.addCompare(cudnn.PointwiseAnd, inRows, inKeys))

	row, key = c.numberOf(2, score), c.numberOf(3, score)
	row = c.addInt32Pointwise(cudnn.PointwiseSub, c.addInt32Pointwise(cudnn.PointwiseAdd, row, c.keys), c.rows)
	score = c.addSelect(score, c.addCompare(cudnn.PointwiseGreaterEqual, row, key))
	if !c.window.Has() {
		return score
	}
	row, key = c.numberOf(2, score), c.numberOf(3, score)
	key = c.addInt32Pointwise(cudnn.PointwiseAdd, c.addInt32Pointwise(cudnn.PointwiseSub, c.addInt32Pointwise(cudnn.PointwiseAdd, key, c.window), c.keys), c.rows)
	return c.addSelect(score, c.addCompare(cudnn.PointwiseGreater, key, row))
}

// addFloatPointwise is an operation on float32.
func (c *composite) addFloatPointwise(how cudnn.PointwiseMode, x, b, y cudnn.Descriptor) cudnn.Descriptor {
	return c.addPointwise(cudnn.Pointwise{Mode: how, Precision: cudnn.Float, X: x, B: b}, y)
}

func (c *composite) addSoftmax(score cudnn.Descriptor) cudnn.Descriptor {
	var none cudnn.Descriptor
	most := c.addReduction(cudnn.ReduceMax, score)
	less := c.addFloatPointwise(cudnn.PointwiseSub, score, most, c.newScoreTensor(cudnn.Float))
	weight := c.addFloatPointwise(cudnn.PointwiseExp, less, none, c.newScoreTensor(cudnn.Float))
	sum := c.addReduction(cudnn.ReduceAdd, weight)
	// The sums' logarithms, which only training uses, are part of what cuDNN recognises.
	logarithm := c.addFloatPointwise(cudnn.PointwiseLog, sum, none, c.newQueryTensor())
	c.addFloatPointwise(cudnn.PointwiseAdd, most, logarithm, c.newQueryTensor())
	return c.addFloatPointwise(cudnn.PointwiseDiv, weight, sum, c.newScoreTensor(cudnn.BFloat16))
}

func (c *composite) buildAttention() cudnn.Descriptor {
	batch, heads, dim, keys := int64(c.Batch), int64(c.KVHeads), int64(c.Dim), int64(c.Bucket.Keys)
	all, head := heads*keys*dim, keys*dim
	k := c.load(c.k, []int64{batch, heads, dim, keys}, []int64{all, head, 1, dim})
	score := c.addMatmul(c.q, k, c.newScoreTensor(cudnn.Float), cudnn.OperationMatmulN)
	score = c.addFloatPointwise(cudnn.PointwiseMul, score, c.scale, c.newScoreTensor(cudnn.Float))
	weight := c.addSoftmax(c.addMasks(score))
	v := c.load(c.v, []int64{batch, heads, keys, dim}, []int64{all, head, dim, 1})
	c.addMatmul(weight, v, c.o, cudnn.OperationMatmulK)
	return c.Operations(c.list...)
}
