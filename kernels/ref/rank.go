package ref

import "github.com/prefillonly/prefillonly/kernels"

var _ kernels.Rank = (*Backend)(nil)

// PartialTypes is float32.
func (b *Backend) PartialTypes() []kernels.DType { return []kernels.DType{kernels.F32} }

// AddSum sets x += parts[0] + parts[1] + ...
func (b *Backend) AddSum(x kernels.Mat, parts []kernels.Mat) { sumParts(x, parts, true) }

// SetSum sets x = parts[0] + parts[1] + ...
func (b *Backend) SetSum(x kernels.Mat, parts []kernels.Mat) { sumParts(x, parts, false) }

func sumParts(x kernels.Mat, parts []kernels.Mat, add bool) {
	runParallel(x.Rows, func(i int) {
		sums := make([]float32, x.Cols)
		copy(sums, matrixRow(parts[0], i))
		for _, p := range parts[1:] {
			for j, v := range matrixRow(p, i) {
				sums[j] += v
			}
		}
		row := matrixRow(x, i)
		for j, v := range sums {
			if add {
				v += row[j]
			}
			row[j] = v
		}
	})
}
