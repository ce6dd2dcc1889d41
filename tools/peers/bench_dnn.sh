#!/bin/bash
# Measure this engine and ONNX Runtime side by side on networks; arguments go to bench_dnn.py. The Python packages are
# installed into build/peers-dnn on first use (about 100 MB).
set -euo pipefail
cd "$(dirname "$0")/../.."
$(tools/build/go.sh) build -o build/bench-dnn ./bench/dnn
exec python3 tools/peers/bench_dnn.py --engine build/bench-dnn --json bench/results/bench-dnn.json "$@"
