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

// store_operands keeps the precision of bf16, so that all instruction sets multiply alike.
static inline void store_operands(operand *p, vf low, vf high)
{
	pf_bf16 narrow[2 * PF_LANES];
	vf_narrow(narrow, low);
	vf_narrow(narrow + PF_LANES, high);
	vf_store(p, vf_widen(narrow));
	vf_store(p + PF_LANES, vf_widen(narrow + PF_LANES));
}

static void load(void *q, const pf_bf16 *query, int dim, int padded)
{
	float *to = q;
	for (int i = 0; i < padded; i++) {
		uint32_t bits = i < dim ? (uint32_t)query[i] << 16 : 0;
		memcpy(to + i, &bits, sizeof bits);
	}
}
