// FlashInfer's Hopper template (TMA loads, wgmma) for heads of 64 and 128.
#include <flashinfer/attention/hopper/default_params.cuh>
#include <flashinfer/attention/hopper/prefill_sm90.cuh>
#include <flashinfer/attention/hopper/variants.cuh>

#include "flash.h"

namespace {

using element = cutlass::bfloat16_t;
using params = flashinfer::SinglePrefillParams<element, element, element>;

template <int dim>
int run(const pf_flash *a, void *stream)
{
    params p{};
    p.q_ptr = (element *)a->q;
    p.k_ptr = (element *)a->k;
    p.v_ptr = (element *)a->v;
    p.o_ptr = (element *)a->o;
    p.additional_params.sm_scale = a->scale;
    p.q_stride_n = a->q_stride;
    p.o_stride_n = a->o_stride;
    p.q_stride_h = p.o_stride_h = dim;
    p.k_stride_n = p.v_stride_n = a->key_stride;
    p.k_stride_h = p.v_stride_h = a->kv_head_stride;
    p.qo_len = (int)a->rows;
    p.kv_len = (int)a->keys;
    p.num_qo_heads = (int)a->q_heads;
    p.num_kv_heads = (int)a->kv_heads;
    p.group_size = (int)(a->q_heads / a->kv_heads);
    p.window_left = -1;
    p.causal = true;
    return (int)flashinfer::SinglePrefillWithKVCacheDispatched<dim, dim, flashinfer::MaskMode::kCausal, false,
                                                               flashinfer::StandardAttention>(p, (cudaStream_t)stream);
}

}

extern "C" int pf_flash_sm90(const pf_flash *a, int dim, void *stream)
{
    try {
        return dim == 64 ? run<64>(a, stream) : run<128>(a, stream);
    } catch (const std::exception &) {
        return (int)cudaErrorNotSupported;
    }
}
