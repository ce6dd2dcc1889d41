package cudnn

// composite is attention in the operations that cuDNN recognises as such: as its own frontend writes them.
type composite struct {
	*attentionGraph
	uid  int64 // of the next tensor
	list []Descriptor
}

func newComposite(g *attentionGraph) *composite {
	return &composite{attentionGraph: g, uid: uidVirtual}
}

// newIntermediate is a tensor between operations.
func (c *composite) newIntermediate(t DataType, dims []int64, strides ...int64) Descriptor {
	c.uid++
	return c.newVirtualTensor(c.uid-1, t, dims, strides...)
}

// newScoreTensor is a number for each query and key, narrow one for each query.
func (c *composite) newScoreTensor(t DataType) Descriptor {
	return c.newIntermediate(t, c.perScore())
}

func (c *composite) newQueryTensor() Descriptor {
	return c.newIntermediate(Float, []int64{int64(c.Batch), int64(c.QHeads), int64(c.AttentionBucket.Rows), 1})
}

func (c *composite) addOperation(operation Descriptor) {
	c.list = append(c.list, c.Finalize(operation))
}

// addPointwise is an operation on single numbers, whose result is y.
func (c *composite) addPointwise(p Pointwise, y Descriptor) Descriptor {
	p.Y = y
	c.list = append(c.list, c.Pointwise(p))
	return y
}

func (c *composite) addReduction(how ReductionOperator, x Descriptor) Descriptor {
	r, o, y := c.Make(ReductionType), c.Make(OperationReductionType), c.newQueryTensor()
	c.Kind(r, ReductionPrecision, Float)
	c.Kind(r, ReductionOperatorOf, how)
	c.Parts(o, OperationReductionHow, c.Finalize(r))
	c.Parts(o, OperationReductionX, x)
	c.Parts(o, OperationReductionY, y)
	c.addOperation(o)
	return y
}

// addMatmul is y = a b, of as many rows as a sequence has, and as many columns or summands (which: the attribute) as
// it has keys.
func (c *composite) addMatmul(a, b, y Descriptor, which Attribute) Descriptor {
	how, o := c.Make(MatmulType), c.Make(OperationMatmulType)
	c.Kind(how, MatmulPrecision, Float)
	c.Parts(o, OperationMatmulA, a)
	c.Parts(o, OperationMatmulB, b)
	c.Parts(o, OperationMatmulC, y)
	c.Parts(o, OperationMatmulHow, c.Finalize(how))
	c.Parts(o, OperationMatmulM, c.rows)
	c.Parts(o, which, c.keys)
	c.addOperation(o)
	return y
}

// load is a sequence's keys or values in order.
func (c *composite) load(pages Descriptor, dims, strides []int64) Descriptor {
	o, y := c.Make(OperationPagedCacheLoadType), c.newIntermediate(BFloat16, dims, strides...)
	c.Parts(o, PagedCacheLoadFrom, pages)
	c.Parts(o, PagedCacheLoadTable, c.table)
	c.Parts(o, PagedCacheLoadSequence, c.keys)
	c.Parts(o, PagedCacheLoadY, y)
	c.addOperation(o)
	return y
}

// numberOf is the number of each score's row (axis 2) or key (axis 3).
func (c *composite) numberOf(axis int64, score Descriptor) Descriptor {
	return c.addPointwise(Pointwise{Mode: PointwiseGenIndex, Precision: Int32, Axis: axis, X: score}, c.newScoreTensor(Int32))
}

func (c *composite) addCompare(how PointwiseMode, x, b Descriptor) Descriptor {
	return c.addPointwise(Pointwise{Mode: how, Precision: Boolean, X: x, B: b}, c.newScoreTensor(Boolean))
}

// addSelect is the score where the condition holds.
func (c *composite) addSelect(score, condition Descriptor) Descriptor {
	return c.addPointwise(Pointwise{Mode: PointwiseBinarySelect, Precision: Float, X: score, B: c.masked, T: condition}, c.newScoreTensor(Float))
}

func (c *composite) addInt32Pointwise(how PointwiseMode, number, by Descriptor) Descriptor {
	return c.addPointwise(Pointwise{Mode: how, Precision: Int32, Axis: 3, X: number, B: by}, c.newScoreTensor(Int32))
}

// addMasks what is outside the sequence, then the keys after a query, then those before its window.
func (c *composite) addMasks(score Descriptor) Descriptor {
	row, key := c.numberOf(2, score), c.numberOf(3, score)
	inRows, inKeys := c.addCompare(PointwiseLess, row, c.rows), c.addCompare(PointwiseLess, key, c.keys)
	score = c.addSelect(score, c.addCompare(PointwiseAnd, inRows, inKeys))

	row, key = c.numberOf(2, score), c.numberOf(3, score)
	row = c.addInt32Pointwise(PointwiseSub, c.addInt32Pointwise(PointwiseAdd, row, c.keys), c.rows)
	score = c.addSelect(score, c.addCompare(PointwiseGreaterEqual, row, key))
	if !c.window.Has() {
		return score
	}
	row, key = c.numberOf(2, score), c.numberOf(3, score)
	key = c.addInt32Pointwise(PointwiseAdd, c.addInt32Pointwise(PointwiseSub, c.addInt32Pointwise(PointwiseAdd, key, c.window), c.keys), c.rows)
	return c.addSelect(score, c.addCompare(PointwiseGreater, key, row))
}

// addFloatPointwise is an operation on float32.
func (c *composite) addFloatPointwise(how PointwiseMode, x, b, y Descriptor) Descriptor {
	return c.addPointwise(Pointwise{Mode: how, Precision: Float, X: x, B: b}, y)
}

func (c *composite) addSoftmax(score Descriptor) Descriptor {
	var none Descriptor
	most := c.addReduction(ReduceMax, score)
	less := c.addFloatPointwise(PointwiseSub, score, most, c.newScoreTensor(Float))
	weight := c.addFloatPointwise(PointwiseExp, less, none, c.newScoreTensor(Float))
	sum := c.addReduction(ReduceAdd, weight)
	// The sums' logarithms, which only training uses, are part of what cuDNN recognises.
	logarithm := c.addFloatPointwise(PointwiseLog, sum, none, c.newQueryTensor())
	c.addFloatPointwise(PointwiseAdd, most, logarithm, c.newQueryTensor())
	return c.addFloatPointwise(PointwiseDiv, weight, sum, c.newScoreTensor(BFloat16))
}

func (c *composite) buildAttention() Descriptor {
	batch, heads, dim, keys := int64(c.Batch), int64(c.KVHeads), int64(c.Dim), int64(c.AttentionBucket.Keys)
	all, head := heads*keys*dim, keys*dim
	k := c.load(c.k, []int64{batch, heads, dim, keys}, []int64{all, head, 1, dim})
	score := c.addMatmul(c.q, k, c.newScoreTensor(Float), OperationMatmulN)
	score = c.addFloatPointwise(PointwiseMul, score, c.scale, c.newScoreTensor(Float))
	weight := c.addSoftmax(c.addMasks(score))
	v := c.load(c.v, []int64{batch, heads, keys, dim}, []int64{all, head, dim, 1})
	c.addMatmul(weight, v, c.o, OperationMatmulK)
	return c.Operations(c.list...)
}
