package cudnn

import (
	"math"
)

// The tensors of attention.
const (
	uidQ = 1 + iota
	uidK
	uidV
	uidO
	uidScale
	uidRows
	uidKeys
	uidTable
	uidQOffset
	uidOOffset
	uidMasked
	uidWindow  // with a window
	uidVirtual // and what follows: never in memory
)

// maskedScore is what a score that must not count becomes: its exponential is 0.
var maskedScore = float32(math.Inf(-1))

// unifiedSince is the first minor version of cuDNN 9 that has attention with a subgraph for its masks as one operation.
const unifiedSince = 21

// attentionGraph is attention of a shape and a bucket, as it is described to cuDNN.
type attentionGraph struct {
	*Graph
	AttentionShape
	AttentionBucket

	q, k, v, o, scale, rows, keys, table, masked Descriptor
	window                                       Descriptor // or none
}

// describeAttention is the operation graph of attention. Before version 9.21 it is one of matrix products and operations on
// scores.
func describeAttention(l *Library, s AttentionShape, b AttentionBucket) (*Graph, Descriptor) {
	g := &attentionGraph{Graph: l.Begin(), AttentionShape: s, AttentionBucket: b}
	wide := int64(b.Keys / s.PageTokens)
	g.q = g.newMatrixTensor(uidQ, uidQOffset, s.QStride)
	g.k = g.newPagesTensor(uidK)
	g.v = g.newPagesTensor(uidV)
	g.o = g.newMatrixTensor(uidO, uidOOffset, s.OStride)
	g.scale = g.number(uidScale, Float)
	g.rows = g.newColumnTensor(uidRows, Int32, b.Batch)
	g.keys = g.newColumnTensor(uidKeys, Int32, b.Batch)
	g.table = g.Tensor(Tensor{UID: uidTable, Type: Int32, Dims: []int64{int64(b.Batch), 1, wide, 1}, Strides: []int64{wide, wide, 1, 1}})
	g.masked = g.number(uidMasked, Float)
	if s.Window > 0 {
		g.window = g.number(uidWindow, Int32)
	}
	if l.AtLeast(unifiedSince) {
		return g.Graph, g.buildUnifiedAttention()
	}
	return g.Graph, newComposite(g).buildAttention()
}

// number is one on the host.
func (g *attentionGraph) number(uid int64, t DataType) Descriptor {
	one := []int64{1, 1, 1, 1}
	return g.Tensor(Tensor{UID: uid, Type: t, Dims: one, Strides: one, ByValue: true})
}

// newColumnTensor is a number for each of n sequences.
func (g *attentionGraph) newColumnTensor(uid int64, t DataType, n int) Descriptor {
	return g.Tensor(Tensor{UID: uid, Type: t, Dims: []int64{int64(n), 1, 1, 1}, Strides: []int64{1, 1, 1, 1}})
}

// newMatrixTensor is rows of the sequences, wherever each begins in one matrix.
func (g *attentionGraph) newMatrixTensor(uid, offsetUID int64, stride int) Descriptor {
	rows, dim := int64(g.AttentionBucket.Rows), int64(g.Dim)
	return g.Tensor(Tensor{
		UID: uid, Type: BFloat16, Dims: []int64{int64(g.Batch), int64(g.QHeads), rows, dim},
		Strides: []int64{rows * int64(stride), dim, int64(stride), 1}, Ragged: g.newColumnTensor(offsetUID, Int64, g.Batch+1),
	})
}

// newPagesTensor are those of keys, or of values: a page of both is the distance from one to the next.
func (g *attentionGraph) newPagesTensor(uid int64) Descriptor {
	heads, tokens, dim := int64(g.KVHeads), int64(g.PageTokens), int64(g.Dim)
	return g.Tensor(Tensor{
		UID: uid, Type: BFloat16, Dims: []int64{MaxPages, heads, tokens, dim}, Strides: []int64{2 * heads * tokens * dim, tokens * dim, dim, 1},
	})
}

// newVirtualTensor is a tensor in no memory, dense, or with other strides.
func (g *attentionGraph) newVirtualTensor(uid int64, t DataType, dims []int64, strides ...int64) Descriptor {
	if len(strides) == 0 {
		strides = []int64{dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1}
	}
	return g.Tensor(Tensor{UID: uid, Type: t, Dims: dims, Strides: strides, Virtual: true})
}

// perScore are the dimensions of a number for each query and key.
func (g *attentionGraph) perScore() []int64 {
	return []int64{int64(g.Batch), int64(g.QHeads), int64(g.AttentionBucket.Rows), int64(g.AttentionBucket.Keys)}
}

// maskOutsideBand is from, with what is outside the band masked: of a sequence's rows and keys, those whose last query
// is not beyond the key (no window), or those of less than window keys before it.
func (g *attentionGraph) maskOutsideBand(from, to, window Descriptor) Descriptor {
	comparison := PointwiseGreaterEqual
	mask := g.Make(OperationDiagonalBandMaskType)
	g.Parts(mask, BandMaskX, from)
	g.Parts(mask, BandMaskB, g.masked)
	g.Parts(mask, BandMaskSequenceQ, g.rows)
	g.Parts(mask, BandMaskSequenceKV, g.keys)
	if window.Has() {
		comparison = PointwiseGreater
		g.Parts(mask, BandMaskLeftBound, window)
	}
	g.Parts(mask, BandMaskY, to)
	g.Kind(mask, BandMaskComparison, comparison)
	return g.Finalize(mask)
}

// setMask sets what happens between the scores and the softmax.
func (g *attentionGraph) setMask(attention Descriptor) {
	var from, causal, to int64 = uidVirtual, uidVirtual + 1, uidVirtual + 1
	masked := g.newVirtualTensor(causal, Float, g.perScore())
	list := []Descriptor{g.maskOutsideBand(g.newVirtualTensor(from, Float, g.perScore()), masked, Descriptor{})}
	if g.window.Has() {
		to = causal + 1
		list = append(list, g.maskOutsideBand(masked, g.newVirtualTensor(to, Float, g.perScore()), g.window))
	}
	g.Parts(attention, SDPAForwardSubgraph, g.Operations(list...))
	g.Ints(attention, SDPAForwardSubgraphInput, from)
	g.Ints(attention, SDPAForwardSubgraphOutput, to)
}

// buildUnifiedAttention is attention as one operation.
func (g *attentionGraph) buildUnifiedAttention() Descriptor {
	attention := g.Make(OperationSDPAForwardType)
	for _, in := range []struct {
		name   Attribute
		tensor Descriptor
	}{
		{SDPAForwardQ, g.q},
		{SDPAForwardK, g.k},
		{SDPAForwardV, g.v},
		{SDPAForwardO, g.o},
		{SDPAForwardScale, g.scale},
		{SDPAForwardTableK, g.table},
		{SDPAForwardTableV, g.table},
		{SDPAForwardSequenceQ, g.rows},
		{SDPAForwardSequenceKV, g.keys},
	} {
		g.Parts(attention, in.name, in.tensor)
	}
	g.setMask(attention)
	return g.Operations(g.Finalize(attention))
}
