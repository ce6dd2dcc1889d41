package ref

import "github.com/prefillonly/prefillonly/kernels"

var _ kernels.LowRanks = (*Backend)(nil)

// LowRankBytes is nothing that lasts: intermediates are the garbage collector's.
func (b *Backend) LowRankBytes(_, _, _, _ int) int64 { return 0 }

// AddLowRank sets rows of x += src A^T B^T.
func (b *Backend) AddLowRank(x, src kernels.Mat, low []kernels.LowRank) {
	b.addLowRanks(rowsOf(x), rowsOf(src), low)
}

// NormLinearLowRank is NormLinear with low-rank products.
func (b *Backend) NormLinearLowRank(dst, x kernels.Mat, n kernels.Norm, l kernels.Linear, low []kernels.LowRank) {
	in, out := normRows(x, n), rowsOf(dst)
	b.multiplyLinear(out, in, l.(*linear), false)
	b.addLowRanks(out, in, low)
}

// MLPLowRank is MLP or MLPProduct with low-rank products.
func (b *Backend) MLPLowRank(dst, x kernels.Mat, n kernels.Norm, act kernels.Activation, up, down kernels.Linear, ups, downs []kernels.LowRank) {
	in, inner := normRows(x, n), newRows(x.Rows, up.Out())
	b.multiplyLinear(inner, in, up.(*linear), false)
	b.addLowRanks(inner, in, ups)
	inner = activateRows(inner, act, down.In())
	b.multiplyLinear(rowsOf(dst), inner, down.(*linear), dst == x)
	b.addLowRanks(rowsOf(dst), inner, downs)
}

func (b *Backend) addLowRanks(out, in [][]float32, low []kernels.LowRank) {
	for _, p := range low {
		between := newRows(p.Rows, p.A.Out())
		b.multiplyLinear(between, in[p.Row:p.Row+p.Rows], p.A.(*linear), false)
		b.multiplyLinear(out[p.Row:p.Row+p.Rows], between, p.B.(*linear), true)
	}
}
