//go:build cgo && linux && amd64

#include "raw.h"

#include <cpuid.h>
#include <immintrin.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
// More than latency times units of any processor so far, as many as there are registers for.
enum { VECTORS = 12, LONG_VECTORS = 24 };

static int has_tiles(int bit)
{
	unsigned a, b, c, d;
	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
		return 0;
	return d >> 24 & 1 && d >> bit & 1 && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

int raw_supported(raw_instruction instruction)
{
	__builtin_cpu_init();
	switch (instruction) {
	case RAW_VFMADD_YMM:
		return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
	case RAW_VFMADD_ZMM:
		return __builtin_cpu_supports("avx512f") != 0;
	case RAW_VDPBF16PS:
		return __builtin_cpu_supports("avx512bf16") != 0;
	case RAW_VPDPBUSD:
		return __builtin_cpu_supports("avx512vnni") != 0;
	case RAW_TDPBF16PS:
		return has_tiles(22);
	default:
		return has_tiles(25);
	}
}

// The compiler may neither merge nor drop what goes through KEEP.
#define KEEP(v) __asm__ volatile("" : "+v"(v))

__attribute__((target("avx2,fma"))) static double vfmadd_ymm(int repeats)
{
	__m256 sum[VECTORS], x = _mm256_set1_ps(1e-3f);
#pragma GCC unroll 12
	for (int i = 0; i < VECTORS; i++)
		sum[i] = _mm256_setzero_ps();
	KEEP(x);
	for (int r = 0; r < repeats; r++)
#pragma GCC unroll 24
		for (int i = 0; i < 2 * VECTORS; i++) {
			sum[i % VECTORS] = _mm256_fmadd_ps(x, x, sum[i % VECTORS]);
			KEEP(sum[i % VECTORS]);
		}
	return 2.0 * 8 * 2 * VECTORS * repeats;
}

__attribute__((target("avx512f"))) static double vfmadd_zmm(int repeats)
{
	__m512 sum[LONG_VECTORS], x = _mm512_set1_ps(1e-3f);
#pragma GCC unroll 24
	for (int i = 0; i < LONG_VECTORS; i++)
		sum[i] = _mm512_setzero_ps();
	KEEP(x);
	for (int r = 0; r < repeats; r++)
#pragma GCC unroll 24
		for (int i = 0; i < LONG_VECTORS; i++) {
			sum[i] = _mm512_fmadd_ps(x, x, sum[i]);
			KEEP(sum[i]);
		}
	return 2.0 * 16 * LONG_VECTORS * repeats;
}

__attribute__((target("avx512f,avx512bf16"))) static double vdpbf16ps(int repeats)
{
	__m512 sum[LONG_VECTORS];
	__m512i pairs = _mm512_set1_epi32(0x3c003c00);
#pragma GCC unroll 24
	for (int i = 0; i < LONG_VECTORS; i++)
		sum[i] = _mm512_setzero_ps();
	KEEP(pairs);
	for (int r = 0; r < repeats; r++)
#pragma GCC unroll 24
		for (int i = 0; i < LONG_VECTORS; i++) {
			sum[i] = _mm512_dpbf16_ps(sum[i], (__m512bh)pairs, (__m512bh)pairs);
			KEEP(sum[i]);
		}
	return 2.0 * 32 * LONG_VECTORS * repeats;
}

__attribute__((target("avx512f,avx512vnni"))) static double vpdpbusd(int repeats)
{
	__m512i sum[LONG_VECTORS], fours = _mm512_set1_epi32(0x01010101);
#pragma GCC unroll 24
	for (int i = 0; i < LONG_VECTORS; i++)
		sum[i] = _mm512_setzero_si512();
	KEEP(fours);
	for (int r = 0; r < repeats; r++)
#pragma GCC unroll 24
		for (int i = 0; i < LONG_VECTORS; i++) {
			sum[i] = _mm512_dpbusd_epi32(sum[i], fours, fours);
			KEEP(sum[i]);
		}
	return 2.0 * 64 * LONG_VECTORS * repeats;
}

typedef struct tile_shapes {
	uint8_t palette, start_row, reserved[14];
	uint16_t row_bytes[16];
	uint8_t rows[16];
} tile_shapes;

static void tiles_begin(void)
{
	_Alignas(64) tile_shapes shapes = {.palette = 1};
	for (int i = 0; i < 8; i++) {
		shapes.row_bytes[i] = 64;
		shapes.rows[i] = 16;
	}
	__asm__ volatile("ldtilecfg %0" : : "m"(shapes) : "memory");
}

#define FOUR_PRODUCTS(name) \
	__asm__ volatile(name " %tmm6, %tmm4, %tmm0\n\t" name " %tmm7, %tmm4, %tmm1\n\t" \
	                 name " %tmm6, %tmm5, %tmm2\n\t" name " %tmm7, %tmm5, %tmm3")

static double tiles(int repeats, int bytes)
{
	tiles_begin();
	if (bytes)
		for (int r = 0; r < repeats; r++)
			FOUR_PRODUCTS("tdpbssd");
	else
		for (int r = 0; r < repeats; r++)
			FOUR_PRODUCTS("tdpbf16ps");
	__asm__ volatile("tilerelease");
	return 4 * 2.0 * 16 * 16 * (bytes ? 64 : 32) * repeats;
}

double raw_run(raw_instruction instruction, int repeats)
{
	switch (instruction) {
	case RAW_VFMADD_YMM:
		return vfmadd_ymm(repeats);
	case RAW_VFMADD_ZMM:
		return vfmadd_zmm(repeats);
	case RAW_VDPBF16PS:
		return vdpbf16ps(repeats);
	case RAW_VPDPBUSD:
		return vpdpbusd(repeats);
	default:
		return tiles(repeats, instruction == RAW_TDPBSSD);
	}
}

double raw_nanoseconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return 1e9 * t.tv_sec + t.tv_nsec;
}
