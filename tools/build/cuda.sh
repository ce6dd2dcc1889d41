#!/bin/sh
# Builds what the tag cuda needs, without a GPU or a CUDA installation: fetches the compiler and
# FlashInfer's headers as Python wheels, compiles our kernels and the attention templates for three
# architectures, and makes a libcuda.a that looks for the driver at run time. Prints the environment
# for go build. Fails when a kernel spills registers, and with 69 when the wheels cannot be fetched. Parts whose
# inputs have not changed are kept.
set -eu
cd "$(dirname "$0")/../.."
wheels=$PWD/.cuda
toolkit=$wheels/cu13/nvidia/cu13
templates=$wheels/flashinfer/flashinfer/data
build=$PWD/kernels/cuda/driver/build
mkdir -p "$build"

fetch() { # DIRECTORY PACKAGE...
    [ -x "$wheels/venv/bin/pip" ] || python3 -m venv "$wheels/venv"
    directory=$1
    shift
    rm -rf "$wheels/$directory.part"
    "$wheels/venv/bin/pip" install -q --no-deps --target "$wheels/$directory.part" "$@" >&2 || {
        echo "cuda: $* cannot be fetched from the Python package index" >&2
        exit 69
    }
    mv "$wheels/$directory.part" "$wheels/$directory"
}

# unchanged NAME INPUT...: whether build/NAME.sum is that of the inputs and of this script; else $sum is.
unchanged() {
    stamp=$build/$1.sum
    shift
    sum=$(cat tools/build/cuda.sh "$@" | sha256sum)
    [ "$(cat "$stamp" 2>/dev/null)" = "$sum" ]
}

# compile REPORT ARGUMENT...: nvcc with a report of resources, which must show no spill.
compile() {
    report=$build/$1
    shift
    PATH=$toolkit/bin:$PATH nvcc -O3 -Xptxas -v "$@" 2>"$report" || { cat "$report" >&2; exit 1; }
    if grep -E '[1-9][0-9]* bytes (spill|stack)' "$report" >&2; then
        echo "cuda: a kernel spills registers or uses local memory (see $report)" >&2
        exit 1
    fi
}

if ! [ -d "$wheels/cu13" ]; then
    echo "cuda: fetching the compiler (105 MB)" >&2
    fetch cu13 nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 \
        nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85
fi

ampere='-gencode arch=compute_80,code=sm_80 -gencode arch=compute_89,code=sm_89'
hopper='-gencode arch=compute_90a,code=sm_90a'

if ! unchanged kernels kernels/cuda/src/*.cu kernels/cuda/src/*.h; then
    for f in kernels/cuda/src/*.cu; do echo "#include \"../../src/${f##*/}\""; done >"$build/kernels.cu"
    # shellcheck disable=SC2086
    compile kernels.txt -std=c++17 --fatbin $ampere $hopper -o "$build/kernels.fatbin" "$build/kernels.cu"
    echo "$sum" >"$stamp"
fi

if ! unchanged flash kernels/cuda/driver/flash/*; then
    if ! [ -d "$templates" ]; then
        echo "cuda: fetching FlashInfer's headers (62 MB) and cuRAND's (62 MB)" >&2
        [ -d "$wheels/curand" ] || fetch curand nvidia-curand==10.4.5.25
        rm -rf "$wheels/flashinfer"
        fetch flashinfer flashinfer-python==0.7.2.post1
    fi
    echo "cuda: compiling the attention templates (1 minute)" >&2
    # FlashInfer's CCCL goes before the compiler's own. cuRAND's header is named by one of CUTLASS.
    include="-I$templates/include -I$templates/cutlass/include -I$templates/cutlass/tools/util/include
        -I$wheels/curand/nvidia/cu13/include
        -I$templates/cccl/libcudacxx/include -I$templates/cccl/cub -I$templates/cccl/thrust"
    options='-c -std=c++20 --expt-relaxed-constexpr --expt-extended-lambda -DFLASHINFER_ENABLE_BF16 -DNDEBUG -Xcompiler -Wno-psabi'
    # shellcheck disable=SC2086
    compile sm80.txt $options $include $ampere -o "$build/sm80.o" kernels/cuda/driver/flash/sm80.cu
    # shellcheck disable=SC2086
    compile sm90.txt $options $include $hopper -o "$build/sm90.o" kernels/cuda/driver/flash/sm90.cu
    rm -f "$build/libflash.a"
    ar rcs "$build/libflash.a" "$build/sm80.o" "$build/sm90.o"
    echo "$sum" >"$stamp"
fi

if ! unchanged driver tools/build/cuda_symbols.txt; then
    # One trampoline a symbol. Without a driver cuInit succeeds and all else answers
    # CUDA_ERROR_NO_DEVICE (100), so that the binary starts and can say so.
    {
        printf '#include <dlfcn.h>\nstatic int none(void) { return 100; }\nstatic int success(void) { return 0; }\n'
        while read -r s; do printf 'void *pf_%s = (void *)none;\n' "$s"; done <tools/build/cuda_symbols.txt
        printf 'static const struct { const char *name; void **to; } table[] = {\n'
        while read -r s; do printf '{"%s", &pf_%s},\n' "$s" "$s"; done <tools/build/cuda_symbols.txt
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
        done <tools/build/cuda_symbols.txt
    } >"$build/libcuda.c"
    gcc -O1 -fno-pic -c -o "$build/libcuda.o" "$build/libcuda.c"
    ar rcs "$build/libcuda.a" "$build/libcuda.o"
    echo "$sum" >"$stamp"
fi
echo "CGO_CFLAGS='-I$PWD/kernels/cuda/compat -I$toolkit/include' CGO_LDFLAGS='-L$build -L$toolkit/lib'"
