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

// part is up to PF_LANES elements of p, and zeros.
static inline vf part(const float *p, int n)
{
	float tail[PF_LANES] = {0};
	memcpy(tail, p, (size_t)n * sizeof *tail);
	return vf_load(tail);
}

static float rms_scale(const float *x, float eps, int n)
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
	return 1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(sum / (float)n + eps)));
}

// layer_norm takes the mean first, and then the variance about it.
static void layer_norm(float *dst, const float *x, const pf_rows *rows)
{
	int n = rows->cols, whole = n / PF_LANES * PF_LANES;
	vf sums = {}, squares = {};
	for (int i = 0; i < whole; i += PF_LANES)
		sums += vf_load(x + i);
	float mean = sum_lanes(sums);
	for (int i = whole; i < n; i++)
		mean += x[i];
	mean /= (float)n;
	for (int i = 0; i < whole; i += PF_LANES) {
		vf off = vf_load(x + i) - mean;
		squares += off * off;
	}
	float variance = sum_lanes(squares);
	for (int i = whole; i < n; i++)
		variance += (x[i] - mean) * (x[i] - mean);
	float scale = 1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(variance / (float)n + rows->eps)));
	for (int i = 0; i < whole; i += PF_LANES) {
		vf y = (vf_load(x + i) - mean) * scale * vf_load(rows->weight + i);
		vf_store(dst + i, rows->bias ? y + vf_load(rows->bias + i) : y);
	}
	if (whole < n) {
		vf y = (part(x + whole, n - whole) - mean) * scale * part(rows->weight + whole, n - whole);
		if (rows->bias)
			y += part(rows->bias + whole, n - whole);
		memcpy(dst + whole, &y, (size_t)(n - whole) * sizeof *dst);
	}
}

static void rms_norm(pf_bf16 *dst, const float *x, const float *weight, float eps, int n)
{
	float scale = rms_scale(x, eps, n);
	for (int i = 0; i < n; i += PF_LANES) {
		int left = pf_min(n - i, PF_LANES);
		if (left == PF_LANES) {
			vf_narrow(dst + i, vf_load(x + i) * scale * vf_load(weight + i));
			continue;
		}
		pf_bf16 out[PF_LANES];
		vf_narrow(out, part(x + i, left) * scale * part(weight + i, left));
		memcpy(dst + i, out, (size_t)left * sizeof *out);
	}
}

static void add_norm(float *dst, const float *x, const pf_rows *rows)
{
	int n = rows->cols, whole = n / PF_LANES * PF_LANES;
	float scale = rms_scale(x, rows->eps, n);
	for (int i = 0; i < whole; i += PF_LANES)
		vf_store(dst + i, vf_load(dst + i) + vf_load(x + i) * scale * vf_load(rows->weight + i));
	if (whole < n) {
		vf y = part(dst + whole, n - whole) + part(x + whole, n - whole) * scale * part(rows->weight + whole, n - whole);
		memcpy(dst + whole, &y, (size_t)(n - whole) * sizeof *dst);
	}
}

static void narrow(pf_bf16 *dst, const float *x, int n)
{
	for (int i = 0; i < n; i += PF_LANES) {
		int left = pf_min(n - i, PF_LANES);
		if (left == PF_LANES) {
			vf_narrow(dst + i, vf_load(x + i));
			continue;
		}
		pf_bf16 out[PF_LANES];
		vf_narrow(out, part(x + i, left));
		memcpy(dst + i, out, (size_t)left * sizeof *out);
	}
}

static void norm(pf_bf16 *dst, const float *x, const pf_rows *rows, float *room)
{
	switch (rows->norm) {
	case PF_RMS_NORM:
		rms_norm(dst, x, rows->weight, rows->eps, rows->cols);
		break;
	case PF_LAYER_NORM:
		layer_norm(room, x, rows);
		narrow(dst, room, rows->cols);
		break;
	case PF_NO_NORM:
		narrow(dst, x, rows->cols);
	}
}
