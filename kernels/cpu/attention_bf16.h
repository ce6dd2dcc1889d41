// Operands of instruction sets that multiply bf16.

typedef pf_bf16 operand;

static inline void store_operands(operand *p, vf low, vf high)
{
	_mm512_storeu_si512(p, (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low));
}

static void load(void *q, const pf_bf16 *query, int dim, int padded)
{
	memcpy(q, query, (size_t)dim * sizeof *query);
	memset((pf_bf16 *)q + dim, 0, (size_t)(padded - dim) * sizeof *query);
}
