#!/bin/bash
# Measure this engine beside transformers, OpenVINO, llama.cpp and vLLM, in bf16 and in int8; arguments go to tools/peers/cpu. The
# Python packages are installed into build/peers (6 GB) and build/peers-vllm (6 GB) on first use, llama.cpp is built, and the
# model is written in seven formats (6 GB): half an hour in all. `make build` makes bin/prefillonly.
#   tools/peers/bench_cpu.sh --contestants prefillonly,prefillonly-int8-head,openvino-int8 --lengths 512 --rounds 3
set -euo pipefail
cd "$(dirname "$0")/../.."
go=$(tools/build/go.sh)
$go build -o build/bench-cpu ./bench/cpu
[ -e build/peers-model/model.safetensors ] || $go run ./tools/checkpoint -out build/peers-model
exec python3 tools/peers/cpu --engine build/bench-cpu --quantizer bin/prefillonly --model build/peers-model "$@"
