#!/bin/sh
# Loads the model "pixels" of make_network.py with Triton's perf_analyzer, unmodified, in binary and in JSON. Usage:
# perf_analyzer.sh PIP HOST:PORT KEY. It is in the wheel of tritonclient 2.50.0, and needs libcudart (from PyPI) and
# libb64 (of the system, or Debian's package, unpacked); without these it says so and is not run.
set -eu
pip=$1 url=$2 key=$3
dir=$PWD/build/clients/triton/perf_analyzer
[ -x "$dir/bin/perf_analyzer" ] || "$pip" install -q --no-deps --target "$dir" tritonclient==2.50.0 nvidia-cuda-runtime-cu12==12.9.79
libraries=$dir/nvidia/cuda_runtime/lib
if ! ldconfig -p | grep -q libb64.so.0d; then
    [ -d "$dir/b64" ] || { command -v apt-get && cd "$dir" && apt-get download -qq libb64-0d && dpkg -x libb64-0d_*.deb b64; } >/dev/null 2>&1 || true
    found=$(find "$dir/b64" -name libb64.so.0d -printf '%h' 2>/dev/null || true)
    [ -n "$found" ] || { echo "perf_analyzer: not run, as there is no libb64.so.0d (Debian's package libb64-0d)"; exit 0; }
    libraries=$libraries:$found
fi
for form in binary json; do
    LD_LIBRARY_PATH=$libraries "$dir/bin/perf_analyzer" -m pixels -u "$url" -i http -H "Authorization: Bearer $key" -z -b 2 \
        --input-tensor-format $form --output-tensor-format $form --concurrency-range 2 --request-count 200 >"$dir/$form.log" 2>&1 ||
        { cat "$dir/$form.log"; exit 1; }
    echo "perf_analyzer 2.50.0, $form: 1 checks passed: $(grep -o 'Throughput: .*' "$dir/$form.log" | head -n 1)"
done
