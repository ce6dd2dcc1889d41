package ref

import "github.com/prefillonly/prefillonly/kernels"

var _ kernels.Rank = (*Backend)(nil)

// PartialTypes is float32.
func (b *Backend) PartialTypes() []kernels.DType { return []kernels.DType{kernels.F32} }

// Product sets dst = src l^T + bias.
func (b *Backend) Product(dst, src kernels.Mat, l kernels.Linear) {
	b.multiplyLinear(rowsOf(dst), rowsOf(src), l.(*linear), false)
}

// MLPProduct sets dst = down(act(g) * u), where (g, u) = gated(RMSNorm(x; w, eps)).
func (b *Backend) MLPProduct(dst, x kernels.Mat, w kernels.Vector, eps float32, act kernels.Activation, gated, down kernels.Linear) {
	b.multiplyLinear(rowsOf(dst), b.gatedActivations(x, w, eps, act, gated), down.(*linear), false)
}

// AddSum sets x += parts[0] + parts[1] + ...
func (b *Backend) AddSum(x kernels.Mat, parts []kernels.Mat) {
	runParallel(x.Rows, func(i int) {
		sums := make([]float32, x.Cols)
		copy(sums, matrixRow(parts[0], i))
		for _, p := range parts[1:] {
			for j, v := range matrixRow(p, i) {
				sums[j] += v
			}
		}
		for j, v := range matrixRow(x, i) {
			matrixRow(x, i)[j] = v + sums[j]
		}
	})
}
