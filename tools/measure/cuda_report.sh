#!/bin/sh
# All that is to be measured on a machine with a GPU, from what `make build/cuda-test` built elsewhere:
#     tools/measure/cuda_report.sh conformance [REPORT]    the kernels against the oracle, models against transformers
#     tools/measure/cuda_report.sh speed [REPORT]          speed, memory, and PyTorch beside it
# Each takes less than 9 minutes and writes build/cuda-test/conformance.md or speed.md part by part, so
# that a part that fails or runs out of time costs no other. Needs a driver and cuBLASLt (CUDA's or that
# of PyTorch's wheels), for the comparison python3 with torch; no compiler, no Go, no network.
# Without a GPU every part says "not measured" and all is well. CUDA_REPORT_SECONDS bounds the whole
# (default 520).
set -u
cd "$(dirname "$0")/../.." || exit 1
built=$PWD/build/cuda-test
which=${1-}
case $which in
conformance | speed) ;;
*)
    sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
report=${2-$built/$which.md}
mkdir -p "$(dirname "$report")"
results=$(dirname "$report")/results.json # of bench, for the comparison with torch
rm -f "$results"
chmod +x "$built"/* 2>/dev/null # copies may forget that these are programs
[ -x "$built/bench" ] || {
    echo "cuda_report.sh: $built/bench is missing: run make build/cuda-test where there is Go, and carry build/cuda-test here" >&2
    exit 1
}

# PyTorch's wheels bring cuBLASLt and cuDNN where CUDA itself is not installed; containers have the
# driver's libraries below /usr/local/nvidia.
wheels=$(python3 -c 'import glob, sysconfig; print(":".join(glob.glob(sysconfig.get_path("purelib") + "/nvidia/*/lib")))' 2>/dev/null)
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$wheels:/usr/local/cuda/lib64:/usr/local/nvidia/lib64:/usr/local/nvidia/lib"
export PYTHONUNBUFFERED=1

total=${CUDA_REPORT_SECONDS:-520}
begun=$(date +%s)
failed=0

say() { printf '%s\n' "$@" | tee -a "$report"; }

# part SECONDS TITLE COMMAND...: runs the command for at most so long, and writes what it prints.
part() {
    seconds=$1 title=$2
    shift 2
    left=$((total - $(date +%s) + begun))
    say "" "## $title" ""
    if [ "$left" -lt 1 ]; then
        say "Not measured: no time was left."
        failed=1
        return
    fi
    [ "$seconds" -le "$left" ] || seconds=$left
    started=$(date +%s)
    { timeout -k 5 "$seconds" "$@" 2>&1; echo "$?" >"$report.status"; } | tee -a "$report"
    status=$(cat "$report.status")
    rm -f "$report.status"
    case $status in
    0) say "" "($(($(date +%s) - started)) s)" ;;
    124 | 137) say "" "Stopped after $seconds s." ;;
    *) say "" "Failed with status $status." ;;
    esac
    [ "$status" = 0 ] || failed=1
}

: >"$report"
say "# GPU $which, $(date -u +%Y-%m-%d)" ""
if nvidia-smi -L 2>/dev/null | grep -q GPU; then
    say "$(nvidia-smi --query-gpu=name,driver_version,memory.total,power.limit,clocks.sm,clocks.max.sm,temperature.gpu --format=csv)"
else
    say "Device: none that nvidia-smi shows. Where a part says \"not measured\", its program was started to see that it runs."
fi

if [ "$which" = conformance ]; then
    say "" "How to read this: every test must pass. The kernels are held to a float64 oracle and to the same bits however rows are cut;" \
        "models to what transformers computes in float32, no further off than its own bfloat16 run. SKIP means not measured."
    part 300 "Kernels against the oracle" "$built/kernels.test" -test.v -test.run TestGPU
    part 200 "Models against transformers" sh -c "cd engine/model && exec '$built/model.test' -test.v -test.run TestGPU"
else
    say "" "How to read this: compare figures within one report, for they share the device and its temperature. \"Of the ceiling\" is against a" \
        "device that runs every operation at the rate of one large product: 80 % is good, 88 % excellent. Goals: 1.5 times" \
        "transformers at 8,192 tokens, 131,072 tokens in 2 GB above the weights. Times are medians after a warm-up, on random values." \
        "Attention is FlashInfer's where cuDNN is not named; serve takes cuDNN where it is new enough."
    part 110 "Prompts of Llama-3.1-8B's shape" "$built/bench" -part prompts -results "$results"
    part 130 "PyTorch on the same weights and prompts" python3 tools/peers/cuda_torch.py "$results"
    part 40 "Suffixes over a cached prefix" "$built/bench" -part suffixes
    part 30 "Attention" "$built/bench" -part attention
    part 30 "Matrix products" "$built/bench" -part products
    part 40 "Matrix products by PyTorch" python3 tools/peers/cuda_torch.py --products "$results"
    part 40 "A long pass that makes way" "$built/bench" -part pause
    part 50 "Chunks" "$built/bench" -part chunks
    part 30 "Copies" "$built/bench" -part copies
    part 50 "Prompts of a 32B model in FP8" "$built/bench" -model 32b -weights fp8 -part prompts
    part 50 "Prompts of a 70B model in FP8" "$built/bench" -model 70b -weights fp8 -part prompts
    part 30 "Matrix products in FP8" "$built/bench" -model 32b -weights fp8 -part products
    part 50 "Prompts of Llama-3.1-8B's shape in int8" "$built/bench" -weights int8 -part prompts
    part 30 "Matrix products in int8" "$built/bench" -weights int8 -part products
    part 90 "Prompts with cuDNN's attention" "$built/bench" -attention cudnn -part prompts
    part 30 "Attention by cuDNN" "$built/bench" -attention cudnn -part attention
    part 30 "Convolutions by our own kernels and by cuDNN" "$built/kernels.test" -test.run '^$' -test.bench GPUConvolutions
    part 30 "Suffixes with cuDNN's attention" "$built/bench" -attention cudnn -part suffixes
fi
say "" "$(($(date +%s) - begun)) s in all."
exit $failed
