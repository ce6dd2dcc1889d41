#!/bin/sh
# Compiles every plan that attention by cuDNN needs, and plans of convolutions, for an A100, an L4 and an H100, with the
# real library and without a GPU: cuDNN takes a description of a device in place of one (9.11 or newer), and
# stand-ins for the driver's library, which answers that there is no device and takes every kernel, and
# for cuBLASLt, which attention does not call; heuristics of convolutions do. Once with the oldest version that is taken and once with
# a new one, for their graphs differ. Fetches both (0.5 GB each), cuBLAS (0.4 GB) and NVRTC (0.1 GB) once.
set -eu
cd "$(dirname "$0")/../.."
wheels=$PWD/.cuda
build=$PWD/kernels/cuda/driver/build
mkdir -p "$build/driver"

fetch() { # DIRECTORY PACKAGE...
    [ -d "$wheels/$1" ] && return
    [ -d "$wheels/venv" ] || python3 -m venv "$wheels/venv"
    directory=$1
    shift
    echo "cudnn_check: fetching $*" >&2
    "$wheels/venv/bin/pip" install -q --no-deps --target "$wheels/$directory.part" "$@" >&2
    mv "$wheels/$directory.part" "$wheels/$directory"
}
fetch cudnn-9.19 nvidia-cudnn-cu13==9.19.0.56
fetch cudnn-9.28 nvidia-cudnn-cu13==9.28.0.42
fetch cublas nvidia-cublas==13.1.0.3
fetch nvrtc nvidia-cuda-nvrtc==13.0.88

# What is not named below answers that there is no device.
while read -r s; do printf '__attribute__((weak)) int %s(void) { return 100; }\n' "$s"; done <tools/build/cuda_symbols.txt >"$build/driver/none.c"
cat >"$build/driver/some.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
int cuInit(unsigned flags) { return (int)(flags & 0); }
int cuDriverGetVersion(int *version) { return *version = 13000, 0; }
int cuGetErrorString(int error, const char **text) { return *text = error ? "no device" : "success", 0; }
int cuLibraryLoadData(void **library, const void *code) { return *library = (void *)code, 0; }
int cuLibraryUnload(void *library) { return library == 0; }
int cuLibraryGetKernel(void **kernel, void *library, const char *name) { return *kernel = library, name == 0; }
int cuKernelGetFunction(void **function, void *kernel) { return *function = kernel, 0; }
int cuModuleLoadData(void **module, const void *code) { return *module = (void *)code, 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) { return *function = module, name == 0; }
int cuModuleUnload(void *module) { return module == 0; }
int cuGetProcAddress_v2(const char *name, void **address, int version, unsigned long flags, int *found)
{
    *address = dlsym(RTLD_DEFAULT, name);
    if (found)
        *found = *address ? 0 : 1;
    return *address && version && flags + 1 ? 0 : 500;
}
int cuGetProcAddress(const char *name, void **address, int version, unsigned long flags) { return cuGetProcAddress_v2(name, address, version, flags, 0); }
C
gcc -shared -fPIC -w -Wl,-soname,libcuda.so.1 -o "$build/driver/libcuda.so.1" "$build/driver/none.c" "$build/driver/some.c"
echo 'unsigned long cublasLtGetVersion(void) { return 130000; }' >"$build/driver/blas.c"
gcc -shared -fPIC -Wl,-soname,libcublasLt.so.13 -o "$build/driver/libcublasLt.so.13" "$build/driver/blas.c"
for version in 9.19 9.28; do
    LD_LIBRARY_PATH="$build/driver:$wheels/cudnn-$version/nvidia/cudnn/lib:$wheels/nvrtc/nvidia/cu13/lib" \
        "$(tools/build/go.sh)" test -count 1 -v -tags cudnn -run TestCudnnPlans ./kernels/cuda
    LD_LIBRARY_PATH="$wheels/cublas/nvidia/cu13/lib:$build/driver:$wheels/cudnn-$version/nvidia/cudnn/lib:$wheels/nvrtc/nvidia/cu13/lib" \
        "$(tools/build/go.sh)" test -count 1 -v -tags cudnn -run TestCudnnConvolutions ./kernels/cuda/cudnn
done
