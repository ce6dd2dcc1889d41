// FlashInfer's template for Ampere and Ada (cp.async, mma.sync) for heads of 64 and 128.
#include <flashinfer/attention/default_prefill_params.cuh>
#include <flashinfer/attention/prefill.cuh>
#include <flashinfer/attention/variants.cuh>

#include "flash.h"

namespace {

using element = __nv_bfloat16;
using params = flashinfer::SinglePrefillParams<element, element, element>;
using variant = flashinfer::DefaultAttention<false, false, false, false>;

// Queries of a tile, and warps that share it. The library's own launcher takes smaller tiles, which
// divide the keys among warps, for few rows; the same tile for all keeps a row's bits the same.
constexpr uint32_t tile = 128, warps = 4, products = 2;

// keys: tiles of 16 keys that a step takes.
template <int dim, uint32_t keys>
int launch(params &p, cudaStream_t stream)
{
    using traits = flashinfer::KernelTraits<flashinfer::MaskMode::kCausal, tile, products, keys, dim / 16, dim / 16, warps, 1,
                                            flashinfer::PosEncodingMode::kNone, element, element, element, float, int32_t, variant>;
    auto kernel = flashinfer::SinglePrefillWithKVCacheKernel<traits, params>;
    size_t shared = sizeof(typename traits::SharedStorage);
    cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (status != cudaSuccess)
        return (int)status;
    uint32_t group = p.num_qo_heads / p.num_kv_heads;
    void *arguments[] = {&p};
    return (int)cudaLaunchKernel((const void *)kernel, dim3((p.qo_len * group + tile - 1) / tile, 1, p.num_kv_heads),
                                 dim3(32, warps, 1), arguments, shared, stream);
}

template <int dim>
int run(const pf_flash *a, cudaStream_t stream)
{
    params p((element *)a->q, (element *)a->k, (element *)a->v, nullptr, (element *)a->o, nullptr, nullptr, (uint32_t)a->q_heads,
             (uint32_t)a->kv_heads, (uint32_t)a->rows, (uint32_t)a->keys, (uint32_t)a->q_stride, dim, (uint32_t)a->key_stride,
             (uint32_t)a->kv_head_stride, dim, -1, 0.0f, a->scale, 1.0f, 1e4f);
    int device, major, minor;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    if (status != cudaSuccess)
        return (int)status;
    // Two blocks of threads share 164 KB of shared memory on sm_80, 100 KB on sm_86 and sm_89.
    if (dim == 128 && major == 8 && minor != 0)
        return launch<dim, 2>(p, stream);
    return launch<dim, 4>(p, stream);
}

}

// The output's stride is the kernel's own: rows of q_heads * dim elements.
extern "C" int pf_flash_sm80(const pf_flash *a, int dim, void *stream)
{
    if (a->o_stride != a->q_heads * dim)
        return (int)cudaErrorInvalidValue;
    return dim == 64 ? run<64>(a, (cudaStream_t)stream) : run<128>(a, (cudaStream_t)stream);
}
