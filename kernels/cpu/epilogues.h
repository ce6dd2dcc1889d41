// Normalisation and the ends of products, compiled once per instruction set: a source that includes
// this states PF_LANES (8 or 16) and its target first.

#include "internal.h"
#include "vectors.h"

// sum_lanes adds the upper half of the lanes to the lower until one is left.
static inline float sum_lanes(vf v)
{
	float lanes[PF_LANES];
	memcpy(lanes, &v, sizeof lanes);
	for (int n = PF_LANES / 2; n > 0; n /= 2)
		for (int i = 0; i < n; i++)
			lanes[i] += lanes[i + n];
	return lanes[0];
}

static void norm(pf_bf16 *dst, const float *x, const float *weight, float eps, int n)
{
	int whole = n / (2 * PF_LANES) * (2 * PF_LANES);
	vf a = {}, b = {};
	for (int i = 0; i < whole; i += 2 * PF_LANES) {
		vf u = vf_load(x + i), v = vf_load(x + i + PF_LANES);
		a += u * u;
		b += v * v;
	}
	float sum = sum_lanes(a + b);
	for (int i = whole; i < n; i++)
		sum += x[i] * x[i];
	float scale = 1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(sum / (float)n + eps)));
	for (int i = 0; i < n; i += PF_LANES) {
		int left = pf_min(n - i, PF_LANES);
		if (left == PF_LANES) {
			vf_narrow(dst + i, vf_load(x + i) * scale * vf_load(weight + i));
			continue;
		}
		float tail[PF_LANES] = {0}, tail_weight[PF_LANES] = {0};
		pf_bf16 out[PF_LANES];
		memcpy(tail, x + i, (size_t)left * sizeof *tail);
		memcpy(tail_weight, weight + i, (size_t)left * sizeof *tail);
		vf_narrow(out, vf_load(tail) * scale * vf_load(tail_weight));
		memcpy(dst + i, out, (size_t)left * sizeof *out);
	}
}

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

// nothing begins and ends the tiles of instruction sets that have no state to set up.
static inline void nothing(void) {}
