// Ends of products, compiled once per instruction set: a source that includes this states PF_LANES (8 or
// 16) and its target first.

#include "internal.h"
#include "vectors.h"

static void store_bf16(pf_bf16 *dst, size_t stride, const float *c, const float *bias, int rows, int cols)
{
	for (int r = 0; r < rows; r++, c += PF_PANEL, dst += stride) {
		pf_bf16 part[PF_PANEL];
		pf_bf16 *out = cols == PF_PANEL ? dst : part;
		for (int j = 0; j < PF_PANEL; j += PF_LANES) {
			vf v = vf_load(c + j);
			vf_narrow(out + j, bias ? v + vf_load(bias + j) : v);
		}
		if (cols < PF_PANEL)
			memcpy(dst, part, (size_t)cols * sizeof *part);
	}
}

static void store_f32(float *dst, size_t stride, const float *c, int rows, int cols)
{
	for (int r = 0; r < rows; r++, c += PF_PANEL, dst += stride)
		memcpy(dst, c, (size_t)cols * sizeof *c);
}

static void add_f32(float *x, size_t stride, const float *c, const float *bias, int rows, int cols)
{
	for (int r = 0; r < rows; r++, c += PF_PANEL, x += stride) {
		float part[PF_PANEL];
		float *out = x;
		if (cols < PF_PANEL) {
			memset(part, 0, sizeof part);
			memcpy(part, x, (size_t)cols * sizeof *part);
			out = part;
		}
		for (int j = 0; j < PF_PANEL; j += PF_LANES) {
			vf v = vf_load(c + j);
			vf_store(out + j, vf_load(out + j) + (bias ? v + vf_load(bias + j) : v));
		}
		if (cols < PF_PANEL)
			memcpy(x, part, (size_t)cols * sizeof *part);
	}
}

static void swiglu(pf_bf16 *dst, const float *c, int rows)
{
	for (int r = 0; r < rows; r++, c += PF_PANEL, dst += PF_PANEL / 2) {
		for (int j = 0; j < PF_PANEL / 2; j += PF_LANES) {
			vf gate = vf_load(c + j), up = vf_load(c + PF_PANEL / 2 + j);
			vf_narrow(dst + j, gate / (1.0f + vf_exp(-gate)) * up);
		}
	}
}

static void geglu(pf_bf16 *dst, const float *c, const pf_gelu *g, int rows)
{
	for (int r = 0; r < rows; r++, c += PF_PANEL, dst += PF_PANEL / 2)
		for (int j = 0; j < PF_PANEL / 2; j += PF_LANES)
			vf_narrow(dst + j, vf_gelu(vf_load(c + j), g) * vf_load(c + PF_PANEL / 2 + j));
}

static void gelu(pf_bf16 *dst, const float *c, const float *bias, const pf_gelu *g, int rows)
{
	for (int r = 0; r < rows; r++, c += PF_PANEL, dst += PF_PANEL)
		for (int j = 0; j < PF_PANEL; j += PF_LANES) {
			vf v = vf_load(c + j);
			vf_narrow(dst + j, vf_gelu(bias ? v + vf_load(bias + j) : v, g));
		}
}
