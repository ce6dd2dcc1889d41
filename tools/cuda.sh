#!/bin/sh
# Builds what the tag cuda needs, without a GPU or a CUDA installation: fetches the compiler as Python
# wheels, compiles the kernels for three architectures, and makes a libcuda.a that looks for the
# driver at run time. Prints the environment for go build. Fails when a kernel spills registers.
set -eu
cd "$(dirname "$0")/.."
wheels=$PWD/.cuda
toolkit=$wheels/cu13/nvidia/cu13
build=$PWD/kernels/cuda/build
mkdir -p "$build"

if ! [ -x "$toolkit/bin/nvcc" ]; then
    echo "cuda: fetching the compiler (105 MB)" >&2
    python3 -m venv "$wheels/venv"
    "$wheels/venv/bin/pip" install -q --no-deps --target "$wheels/cu13" \
        nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 \
        nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85 >&2
fi

sum=$(cat kernels/cuda/src/* tools/cuda.sh tools/cuda_symbols.txt | sha256sum)
if [ "$(cat "$build/sum" 2>/dev/null)" != "$sum" ]; then
    cat >"$build/kernels.cu" <<'C'
#include "../src/attention.cu"
#include "../src/elementwise.cu"
#include "../src/logits.cu"
#include "../src/store_kv.cu"
C
    PATH=$toolkit/bin:$PATH nvcc -O3 -std=c++17 --fatbin -Xptxas -v \
        -gencode arch=compute_80,code=sm_80 -gencode arch=compute_89,code=sm_89 -gencode arch=compute_90a,code=sm_90a \
        -o "$build/kernels.fatbin" "$build/kernels.cu" 2>"$build/resources.txt" || { cat "$build/resources.txt" >&2; exit 1; }
    if grep -E '[1-9][0-9]* bytes (spill|stack)' "$build/resources.txt" >&2; then
        echo "cuda: a kernel spills registers or uses local memory" >&2
        exit 1
    fi
    # One trampoline a symbol. Without a driver cuInit succeeds and all else answers
    # CUDA_ERROR_NO_DEVICE (100), so that the binary starts and can say so.
    {
        printf '#include <dlfcn.h>\nstatic int none(void) { return 100; }\nstatic int success(void) { return 0; }\n'
        while read -r s; do printf 'void *pf_%s = (void *)none;\n' "$s"; done <tools/cuda_symbols.txt
        printf 'static const struct { const char *name; void **to; } table[] = {\n'
        while read -r s; do printf '{"%s", &pf_%s},\n' "$s" "$s"; done <tools/cuda_symbols.txt
        cat <<'C'
};
__attribute__((constructor(101))) static void bind(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!driver)
        pf_cuInit = (void *)success;
    for (unsigned i = 0; driver && i < sizeof table / sizeof *table; i++) {
        void *f = dlsym(driver, table[i].name);
        if (f)
            *table[i].to = f;
    }
}
C
        while read -r s; do
            printf '__asm__(".globl %s\\n.type %s,@function\\n%s: jmp *pf_%s(%%rip)\\n");\n' "$s" "$s" "$s" "$s"
        done <tools/cuda_symbols.txt
    } >"$build/libcuda.c"
    gcc -O1 -fno-pic -c -o "$build/libcuda.o" "$build/libcuda.c"
    ar rcs "$build/libcuda.a" "$build/libcuda.o"
    echo "$sum" >"$build/sum"
fi
echo "CGO_CFLAGS='-I$PWD/kernels/cuda/compat -I$toolkit/include' CGO_LDFLAGS='-L$build'"
