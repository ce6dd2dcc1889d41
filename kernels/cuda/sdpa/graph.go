package sdpa

import (
	"math"

	"github.com/prefillonly/prefillonly/kernels/cuda/cudnn"
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

// unified is the first minor version of cuDNN 9 that has attention with a subgraph for its masks as one operation.
const unified = 21

// graph is attention of a shape and a bucket, as it is described to cuDNN.
type graph struct {
	*cudnn.Graph
	Shape
	Bucket

	q, k, v, o, scale, rows, keys, table, masked cudnn.Descriptor
	window                                       cudnn.Descriptor // or none
}

// describeAttention is the operation graph of attention. Before version 9.21 it is one of matrix products and operations on
// scores.
func describeAttention(l *cudnn.Library, s Shape, b Bucket) (*cudnn.Graph, cudnn.Descriptor) {
	g := &graph{Graph: l.Begin(), Shape: s, Bucket: b}
	wide := int64(b.Keys / s.PageTokens)
	g.q = g.newMatrixTensor(uidQ, uidQOffset, s.QStride)
	g.k = g.newPagesTensor(uidK)
	g.v = g.newPagesTensor(uidV)
	g.o = g.newMatrixTensor(uidO, uidOOffset, s.OStride)
	g.scale = g.number(uidScale, cudnn.Float)
	g.rows = g.newColumnTensor(uidRows, cudnn.Int32, b.Batch)
	g.keys = g.newColumnTensor(uidKeys, cudnn.Int32, b.Batch)
	g.table = g.Tensor(cudnn.Tensor{UID: uidTable, Type: cudnn.Int32, Dims: []int64{int64(b.Batch), 1, wide, 1}, Strides: []int64{wide, wide, 1, 1}})
	g.masked = g.number(uidMasked, cudnn.Float)
	if s.Window > 0 {
		g.window = g.number(uidWindow, cudnn.Int32)
	}
	if l.AtLeast(unified) {
		return g.Graph, g.buildUnifiedAttention()
	}
	return g.Graph, newComposite(g).buildAttention()
}

// number is one on the host.
func (g *graph) number(uid int64, t cudnn.DataType) cudnn.Descriptor {
	one := []int64{1, 1, 1, 1}
	return g.Tensor(cudnn.Tensor{UID: uid, Type: t, Dims: one, Strides: one, ByValue: true})
}

// newColumnTensor is a number for each of n sequences.
func (g *graph) newColumnTensor(uid int64, t cudnn.DataType, n int) cudnn.Descriptor {
	return g.Tensor(cudnn.Tensor{UID: uid, Type: t, Dims: []int64{int64(n), 1, 1, 1}, Strides: []int64{1, 1, 1, 1}})
}

// newMatrixTensor is rows of the sequences, wherever each begins in one matrix.
func (g *graph) newMatrixTensor(uid, offsetUID int64, stride int) cudnn.Descriptor {
	rows, dim := int64(g.Bucket.Rows), int64(g.Dim)
	return g.Tensor(cudnn.Tensor{
		UID: uid, Type: cudnn.BFloat16, Dims: []int64{int64(g.Batch), int64(g.QHeads), rows, dim},
		Strides: []int64{rows * int64(stride), dim, int64(stride), 1}, Ragged: g.newColumnTensor(offsetUID, cudnn.Int64, g.Batch+1),
	})
}

// newPagesTensor are those of keys, or of values: a page of both is the distance from one to the next.
func (g *graph) newPagesTensor(uid int64) cudnn.Descriptor {
	heads, tokens, dim := int64(g.KVHeads), int64(g.PageTokens), int64(g.Dim)
	return g.Tensor(cudnn.Tensor{
		UID: uid, Type: cudnn.BFloat16, Dims: []int64{MaxPages, heads, tokens, dim}, Strides: []int64{2 * heads * tokens * dim, tokens * dim, dim, 1},
	})
}

// newVirtualTensor is a tensor in no memory, dense, or with other strides.
func (g *graph) newVirtualTensor(uid int64, t cudnn.DataType, dims []int64, strides ...int64) cudnn.Descriptor {
	if len(strides) == 0 {
		strides = []int64{dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1}
	}
	return g.Tensor(cudnn.Tensor{UID: uid, Type: t, Dims: dims, Strides: strides, Virtual: true})
}

// perScore are the dimensions of a number for each query and key.
func (g *graph) perScore() []int64 {
	return []int64{int64(g.Batch), int64(g.QHeads), int64(g.Bucket.Rows), int64(g.Bucket.Keys)}
}

// maskOutsideBand is from, with what is outside the band masked: of a sequence's rows and keys, those whose last query
// is not beyond the key (no window), or those of less than window keys before it.
func (g *graph) maskOutsideBand(from, to, window cudnn.Descriptor) cudnn.Descriptor {
	comparison := cudnn.PointwiseGreaterEqual
	mask := g.Make(cudnn.OperationDiagonalBandMaskType)
	g.Parts(mask, cudnn.BandMaskX, from)
	g.Parts(mask, cudnn.BandMaskB, g.masked)
	g.Parts(mask, cudnn.BandMaskSequenceQ, g.rows)
	g.Parts(mask, cudnn.BandMaskSequenceKV, g.keys)
	if window.Has() {
		comparison = cudnn.PointwiseGreater
		g.Parts(mask, cudnn.BandMaskLeftBound, window)
	}
	g.Parts(mask, cudnn.BandMaskY, to)
	g.Kind(mask, cudnn.BandMaskComparison, comparison)
	return g.Finalize(mask)
}

// setMask sets what happens between the scores and the softmax.
func (g *graph) setMask(attention cudnn.Descriptor) {
	var from, causal, to int64 = uidVirtual, uidVirtual + 1, uidVirtual + 1
	masked := g.newVirtualTensor(causal, cudnn.Float, g.perScore())
	list := []cudnn.Descriptor{g.maskOutsideBand(g.newVirtualTensor(from, cudnn.Float, g.perScore()), masked, cudnn.Descriptor{})}
	if g.window.Has() {
		to = causal + 1
		list = append(list, g.maskOutsideBand(masked, g.newVirtualTensor(to, cudnn.Float, g.perScore()), g.window))
	}
	g.Parts(attention, cudnn.SDPAForwardSubgraph, g.Operations(list...))
	g.Ints(attention, cudnn.SDPAForwardSubgraphInput, from)
	g.Ints(attention, cudnn.SDPAForwardSubgraphOutput, to)
}

// buildUnifiedAttention is attention as one operation.
func (g *graph) buildUnifiedAttention() cudnn.Descriptor {
	attention := g.Make(cudnn.OperationSDPAForwardType)
	for _, in := range []struct {
		name   cudnn.Attribute
		tensor cudnn.Descriptor
	}{
		{cudnn.SDPAForwardQ, g.q},
		{cudnn.SDPAForwardK, g.k},
		{cudnn.SDPAForwardV, g.v},
		{cudnn.SDPAForwardO, g.o},
		{cudnn.SDPAForwardScale, g.scale},
		{cudnn.SDPAForwardTableK, g.table},
		{cudnn.SDPAForwardTableV, g.table},
		{cudnn.SDPAForwardSequenceQ, g.rows},
		{cudnn.SDPAForwardSequenceKV, g.keys},
	} {
		g.Parts(attention, in.name, in.tensor)
	}
	g.setMask(attention)
	return g.Operations(g.Finalize(attention))
}
