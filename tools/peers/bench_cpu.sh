#!/bin/bash
# Measure this engine, transformers and OpenVINO side by side; arguments go to bench_cpu.py. The Python
# packages are installed into build/peers on first use (about 2 GB).
set -euo pipefail
cd "$(dirname "$0")/../.."
$(tools/go.sh) build -o build/bench-cpu ./bench/cpu
exec python3 tools/peers/bench_cpu.py --engine build/bench-cpu --lean --json bench/results/bench-cpu.json "$@"
