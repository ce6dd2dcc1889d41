// Operands of instruction sets that multiply floats: a pair is two vectors.

typedef float operand;
typedef struct pair {
	vf even, odd;
} row_pair, column_pairs;

static inline row_pair broadcast(const operand *p) { return (row_pair){vf_set(p[0]), vf_set(p[1])}; }

static inline column_pairs columns(const pf_bf16 *p)
{
	vu both;
	memcpy(&both, p, sizeof both);
	return (column_pairs){(vf)(both << 16), (vf)(both & 0xffff0000)};
}

static inline column_pairs columns_even(const pf_bf16 *p) { return (column_pairs){columns(p).even, (vf){}}; }

static inline vf multiply_add(vf sum, row_pair a, column_pairs b) { return sum + a.even * b.even + a.odd * b.odd; }

// round_bf16 rounds to nearest even. NaN may get lost: the sum of the probabilities keeps it.
static inline vf round_bf16(vf v)
{
	vu bits = (vu)v;
	return (vf)((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}

// store_operands keeps the precision of bf16, so that all instruction sets multiply alike.
static inline void store_operands(operand *p, vf low, vf high)
{
	vf_store(p, round_bf16(low));
	vf_store(p + PF_LANES, round_bf16(high));
}

static void load_row(operand *to, const pf_bf16 *query, int dim, int padded)
{
	for (int i = 0; i < padded; i++) {
		uint32_t bits = i < dim ? (uint32_t)query[i] << 16 : 0;
		memcpy(to + i, &bits, sizeof bits);
	}
}
