//go:build cgo && linux && amd64

// Detection of the machine's instruction set.

#include "internal.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };

static int has_f16c(void)
{
	unsigned a, b, c, d;
	return __get_cpuid(1, &a, &b, &c, &d) && c >> 29 & 1;
}

// has_amx tells whether the processor has AMX-BF16 and Linux lets this process use the tiles. The
// compiler's builtin does not know this feature, nor F16C, so CPUID is read here.
static int has_amx(void)
{
#ifdef PF_AMX_EMULATED
	return 1;
#endif
	unsigned a, b, c, d;
	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
		return 0;
	int tile = d >> 24 & 1, bf16 = d >> 22 & 1;
	return tile && bf16 && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

// has_amx_int8 asks the processor once: on virtual machines CPUID traps, and every product asks.
static int has_amx_int8(void)
{
	static _Atomic int known; // 2 for no
	if (!known) {
		unsigned a, b, c, d;
		known = __get_cpuid_count(7, 0, &a, &b, &c, &d) && d >> 25 & 1 ? 1 : 2;
	}
	return known == 1;
}

pf_isa pf_isa_detect(void)
{
	__builtin_cpu_init();
	if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c())
		return PF_NONE;
	if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
	    !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
		return PF_AVX2;
	if (!__builtin_cpu_supports("avx512bf16"))
		return PF_AVX512;
	return has_amx() ? PF_AMX : PF_AVX512_BF16;
}

static int is_intel(void)
{
	unsigned a, b, c, d;
	return __get_cpuid(0, &a, &b, &c, &d) && b == signature_INTEL_ebx && c == signature_INTEL_ecx && d == signature_INTEL_edx;
}

const pf_ops *pf_ops_int8(pf_isa isa)
{
#ifdef PF_INT8_EMULATED
	(void)isa;
	return &PF_INT8_EMULATED;
#endif
	if (isa == PF_AMX && has_amx_int8())
		return &pf_ops_int8_amx;
	if (isa >= PF_AVX512 && __builtin_cpu_supports("avx512vnni"))
		return &pf_ops_int8_avx512_vnni;
	return __builtin_cpu_supports("avxvnni") ? &pf_ops_int8_avx_vnni : &pf_ops_int8_avx2;
}

pf_isa pf_isa_products(pf_isa isa)
{
	return isa == PF_AVX512_BF16 && is_intel() ? PF_AVX512 : isa;
}
