/* gorgonia.org/cu calls the CUDA 11 and 12 prototypes of five functions that cuda.h of CUDA 13 maps to
   newer ones; libcuda still exports the older symbols. This header is found before CUDA's own and
   undoes the mapping. */
#ifndef PREFILLONLY_CUDA_COMPAT_H
#define PREFILLONLY_CUDA_COMPAT_H
#include_next <cuda.h>
#if CUDA_VERSION >= 13000
#undef cuCtxCreate
#undef cuGraphAddDependencies
#undef cuGraphGetEdges
#undef cuMemAdvise
#undef cuMemPrefetchAsync
#define cuCtxCreate cuCtxCreate_v2
CUresult CUDAAPI cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device);
CUresult CUDAAPI cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count);
CUresult CUDAAPI cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count);
CUresult CUDAAPI cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device);
CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream);
#endif
#endif
