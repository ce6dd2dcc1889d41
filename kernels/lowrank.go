package kernels

// LowRank is a product of rank A.Out() that is added to that of a linear layer in some rows: those of x A^T B^T (Hu et al., LoRA, 2021).
// B is made as the layer's matrix is: of an MLP's first one that is gated, by NewGatedLinear.
type LowRank struct {
	Row, Rows int // rows [Row, Row+Rows) of the operation
	A, B      Linear
}

// LowRanks is a Backend that adds low-rank products. What stands between A and B is rounded to ActType. A row's bits depend on its inputs
// and on its own low-rank product alone; without one they are those of the operation that adds none.
type LowRanks interface {
	Backend

	// LowRankBytes is what the operations below hold at the most, for rows of layers of these widths and products up to a rank.
	LowRankBytes(rows, widest, inner, rank int) int64

	// AddLowRank sets rows of x += src A^T B^T.
	AddLowRank(x, src Mat, low []LowRank)
	// NormLinearLowRank is NormLinear with products of n(x) added before the result is rounded.
	NormLinearLowRank(dst, x Mat, n Norm, l Linear, low []LowRank)
	// MLPLowRank is MLP where dst is x, and else MLPProduct, with products of n(x) added to those of up, and of the activation to those of down.
	MLPLowRank(dst, x Mat, n Norm, act Activation, up, down Linear, ups, downs []LowRank)
}
