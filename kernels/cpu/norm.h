// Normalisation, compiled once per instruction set: a source that includes this states PF_LANES (8 or 16)
// and its target first.

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
