package ref

import "github.com/prefillonly/prefillonly/kernels"

var _ kernels.Mixtures = (*Backend)(nil)

// PickRows sets dst[i] = x[rows[i]].
func (b *Backend) PickRows(dst, x kernels.Mat, rows []int32) {
	if b.checkRows("PickRows", dst, x, rows) {
		for i, r := range rows {
			copy(matrixRow(dst, i), matrixRow(x, int(r)))
		}
	}
}

// AddScaledRows sets x[rows[i]] += scale[i] * src[i].
func (b *Backend) AddScaledRows(x, src kernels.Mat, rows []int32, scale []float32) {
	if len(scale) != len(rows) {
		b.recordFailure("AddScaledRows: got %d factors, want %d", len(scale), len(rows))
		return
	}
	if !b.checkRows("AddScaledRows", src, x, rows) {
		return
	}
	for i, r := range rows {
		to := matrixRow(x, int(r))
		for j, v := range matrixRow(src, i) {
			to[j] += float32(v * scale[i])
		}
	}
}

// checkRows says whether some has as many rows as are listed of all.
func (b *Backend) checkRows(op string, some, all kernels.Mat, rows []int32) bool {
	if len(rows) != some.Rows || some.Cols != all.Cols {
		b.recordFailure("%s: %d rows listed, got [%d, %d] of [%d, %d]", op, len(rows), some.Rows, some.Cols, all.Rows, all.Cols)
		return false
	}
	for _, r := range rows {
		if r < 0 || int(r) >= all.Rows {
			b.recordFailure("%s: row %d of %d", op, r, all.Rows)
			return false
		}
	}
	return true
}
