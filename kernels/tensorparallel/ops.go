package tensorparallel

import (
	"errors"
	"slices"

	"github.com/prefillonly/prefillonly/kernels"
)

var errCut = errors.New("a matrix for AddLinear and for MLP's second product comes from NewOutputLinear, others from NewLinear")

// KVBlockBytes is what one rank holds of a block.
func (b *Backend) KVBlockBytes(h kernels.Heads, tokens int) int64 {
	var most int64
	for i, w := range b.workers {
		most = max(most, w.KVBlockBytes(rankHeads(h, i, len(b.workers)), tokens))
	}
	return most
}

// ScratchBytes is one rank's, with the partial sums it holds and those it gathers. That its own
// matrices are narrower is left out.
func (b *Backend) ScratchBytes(rows, maxIn, maxOut int, largest kernels.LargestCodes) int64 {
	partials := int64(2+len(b.workers)) * b.partials.Size() * int64(rows) * int64(min(maxIn, maxOut))
	return b.workers[0].ScratchBytes(rows, maxIn, maxOut, largest) + partials
}

// Embed runs on every rank.
func (b *Backend) Embed(x kernels.Mat, t kernels.Table, ids []uint32, scale float32) {
	ids = slices.Clone(ids)
	b.enqueueEachRank(func(i int, w *worker) error {
		w.Embed(rankMatrix(x, i, x.Cols), t.(*table).whole[i], ids, scale)
		return nil
	})
}

// NormLinear gives each rank its columns of dst.
func (b *Backend) NormLinear(dst, x kernels.Mat, n kernels.Norm, l kernels.Linear) {
	m := l.(*linear)
	if m.out == nil {
		b.recordFailure("NormLinear: %w", errCut)
		return
	}
	b.enqueueEachRank(func(i int, r *worker) error {
		if m.parts[i] != nil {
			r.NormLinear(rankMatrix(dst, i, m.out.columnCount(i)), rankMatrix(x, i, x.Cols), rankNorm(n, i), m.parts[i])
		}
		return nil
	})
	cutTo(dst, m.out)
}

// rankSegments are segs with each rank's blocks.
func (b *Backend) rankSegments(segs []kernels.Segment) [][]kernels.Segment {
	all := make([][]kernels.Segment, len(b.workers))
	for i := range all {
		own := slices.Clone(segs)
		for j := range own {
			own[j].Blocks = make([]kernels.KVBlock, len(segs[j].Blocks))
			for k, block := range segs[j].Blocks {
				own[j].Blocks[k] = kernels.KVBlock{Buf: block.Buf.(*buffer).ranks[i], Off: block.Off}
			}
		}
		all[i] = own
	}
	return all
}

// CopyKV copies each rank's own part of a block.
func (b *Backend) CopyKV(dst, src kernels.KVBlock, bytes int64) {
	to, from := dst.Buf.(*buffer), src.Buf.(*buffer)
	b.enqueueEachRank(func(i int, w *worker) error {
		w.CopyKV(kernels.KVBlock{Buf: to.ranks[i], Off: dst.Off}, kernels.KVBlock{Buf: from.ranks[i], Off: src.Off}, bytes)
		return nil
	})
}

// StoreKV stores each rank's own heads in its own blocks.
func (b *Backend) StoreKV(qkv kernels.Mat, spec kernels.RopeSpec, blockTokens int, segs []kernels.Segment) {
	if whole, err := spec.WholeNorms(); err != nil || whole {
		b.recordFailure("norms of all heads together are not computed over several ranks (%v)", err)
		return
	}
	b.ensureLayout(qkv, qkvLayout(spec.Heads, len(b.workers)))
	own := b.rankSegments(segs)
	b.enqueueEachRank(func(i int, w *worker) error {
		s := spec
		s.Heads = rankHeads(spec.Heads, i, len(b.workers))
		if s.Heads.Q+s.Heads.KV == 0 {
			return nil
		}
		s.Rope, s.QNorm, s.KNorm = spec.Rope.(*rope).ranks[i], rankVector(spec.QNorm, i), rankVector(spec.KNorm, i)
		w.StoreKV(rankMatrix(qkv, i, s.Heads.QKVCols()), s, blockTokens, own[i])
		return nil
	})
}

// Attention computes each rank's own heads.
func (b *Backend) Attention(dst, qkv kernels.Mat, spec kernels.AttentionSpec, blockTokens int, segs []kernels.Segment) {
	q := qkv
	q.Cols = spec.Heads.Q * spec.Heads.Dim
	result := queryLayout(spec.Heads, len(b.workers))
	b.ensureLayout(q, result)
	own := b.rankSegments(segs)
	b.enqueueEachRank(func(i int, w *worker) error {
		s := spec
		s.Heads = rankHeads(spec.Heads, i, len(b.workers))
		if s.Heads.Q > 0 {
			w.Attention(rankMatrix(dst, i, result.columnCount(i)), rankMatrix(qkv, i, s.Heads.QKVCols()), s, blockTokens, own[i])
		}
		return nil
	})
	cutTo(dst, result)
}

// AddLinear sums the ranks' products.
func (b *Backend) AddLinear(x, src kernels.Mat, l kernels.Linear) {
	b.sumLinears("AddLinear", x, src, l, kernels.Rank.AddSum)
}

func (b *Backend) sumLinears(op string, x, src kernels.Mat, l kernels.Linear, sum summing) {
	m := l.(*linear)
	if m.in == nil {
		b.recordFailure("%s: %w", op, errCut)
		return
	}
	b.ensureLayout(src, m.in)
	b.sumProducts(x, m, sum, func(i int, w *worker, partial kernels.Mat) {
		w.Product(partial, rankMatrix(src, i, m.in.columnCount(i)), m.parts[i])
	})
}

// Product is AddLinear that does not read dst.
func (b *Backend) Product(dst, src kernels.Mat, l kernels.Linear) {
	b.sumLinears("Product", dst, src, l, kernels.Rank.SetSum)
}

// MLP sums the ranks' products.
func (b *Backend) MLP(x kernels.Mat, n kernels.Norm, act kernels.Activation, up, down kernels.Linear) {
	b.sumMLPs("MLP", x, x, n, act, up, down, kernels.Rank.AddSum)
}

// MLPProduct is MLP that does not read dst.
func (b *Backend) MLPProduct(dst, x kernels.Mat, n kernels.Norm, act kernels.Activation, up, down kernels.Linear) {
	b.sumMLPs("MLPProduct", dst, x, n, act, up, down, kernels.Rank.SetSum)
}

func (b *Backend) sumMLPs(op string, dst, x kernels.Mat, n kernels.Norm, act kernels.Activation, up, down kernels.Linear, sum summing) {
	g, d := up.(*linear), down.(*linear)
	if g.out == nil || d.in == nil {
		b.recordFailure("%s: %w", op, errCut)
		return
	}
	b.sumProducts(dst, d, sum, func(i int, r *worker, partial kernels.Mat) {
		r.MLPProduct(partial, rankMatrix(x, i, x.Cols), rankNorm(n, i), act, g.parts[i], d.parts[i])
	})
}

// AddNorm runs on every rank.
func (b *Backend) AddNorm(x, src kernels.Mat, n kernels.Norm) {
	b.enqueueEachRank(func(i int, r *worker) error {
		r.AddNorm(rankMatrix(x, i, x.Cols), rankMatrix(src, i, src.Cols), rankNorm(n, i))
		return nil
	})
}

// summing is AddSum or SetSum.
type summing func(r kernels.Rank, x kernels.Mat, parts []kernels.Mat)

// sumProducts sums the products of the ranks that have a part of l. A rank without one takes part
// in the gathering, for a library may need all.
func (b *Backend) sumProducts(x kernels.Mat, l *linear, sum summing, product func(i int, w *worker, partial kernels.Mat)) {
	if x.Rows == 0 {
		return
	}
	b.enqueueEachRank(func(i int, w *worker) error {
		partial, err := w.nextPartial(x.Rows, x.Cols, b.partials)
		if err != nil {
			return err
		}
		if l.parts[i] != nil {
			product(i, w, partial)
		}
		gathered, err := b.collective.Gather(i, partial)
		if err != nil {
			return err
		}
		var parts []kernels.Mat
		for rank, p := range gathered {
			if l.parts[rank] != nil {
				parts = append(parts, p)
			}
		}
		sum(w.Rank, rankMatrix(x, i, x.Cols), parts)
		return nil
	})
}

// Logits gives each rank its part of the vocabulary, or of the listed rows.
func (b *Backend) Logits(dst, x kernels.Mat, n kernels.Norm, t kernels.Table, ids []uint32) {
	all := t.(*table)
	count := all.Rows()
	if ids != nil {
		count, ids = len(ids), slices.Clone(ids)
	}
	l := stackedLayout(len(b.workers), count)
	b.enqueueEachRank(func(i int, r *worker) error {
		from, to := rankRange(count, i, len(b.workers))
		switch out := rankMatrix(dst, i, to-from); {
		case from == to:
		case ids == nil:
			r.Logits(out, rankMatrix(x, i, x.Cols), rankNorm(n, i), all.parts[i], nil)
		default:
			r.Logits(out, rankMatrix(x, i, x.Cols), rankNorm(n, i), all.whole[i], ids[from:to])
		}
		return nil
	})
	cutTo(dst, l)
}
