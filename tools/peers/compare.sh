#!/bin/bash
# Sweep the request rate over this engine and others on this machine's CPU, behind the same HTTP client, both workloads at
# their ratios, with prefix caches of the same size. The engines take turns, for ROUNDS rounds (3), so that other work
# on the machine slows all of them alike; medians and the spread of the rounds are printed, and CSV files of the
# medians and figures go to bench/results/cpu (OUT). The first argument says which engines, the others which
# cases, all without any:
#   tools/peers/compare.sh orders [post-recommendation] [credit-verification]
#   tools/peers/compare.sh vllm [post-recommendation-whole] [post-recommendation-third] [credit-verification] [short-prompts]
#
# orders: the paper's baselines, which are this executor scheduled as those engines schedule: first come, first
# served, whole KV kept, least recently used evicted; on the demo model, to whose speed the workloads are scaled, with a cache
# that holds about a third of the users' profiles. Those without a prefix cache, which are never near the others, run in the
# first round alone. About 25 minutes on two quiet cores.
#
# vllm: vLLM's CPU build (tools/peers/vllm.sh), on random weights of Qwen2.5-0.5B's shape: a model so large that passes and not
# HTTP take the time. Each request is an arrival of its own, and rates are parts of what vLLM answers with all due at once, X if
# that is known; LENGTH=0.5 makes prompts and caches half as long, so that a rate takes half the time.
#
# RATES=0.5,0.8,inf are the rates, in parts of x or inf for all at once.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/measure/serve.bash
out=${OUT:-bench/results/cpu}
port=8123
rounds=${ROUNDS:-3}
set=${1:-orders}
cases=${*:2}
length=${LENGTH:-1}

# ours PORT CACHE TOKENS FLAGS... and vllm: a server of the model with a prefix cache of so many MiB, which are so many tokens.
ours() { serve "$1" "${model[@]}" --kv-cache-memory-bytes "$2MiB" "${@:4}"; }

# Told the processors by name and to reserve none, vLLM computes with all of them. A block of its cache is never used.
# Blocks of 32 tokens and zentorch took it from 2.0 to 3.8 requests/s (100 requests of post recommendation, whole cache) from blocks
# of 128, its default, without zentorch.
vllm() {
  OMP_NUM_THREADS=$(nproc) VLLM_CPU_OMP_THREADS_BIND=0-$(($(nproc) - 1)) VLLM_CPU_NUM_OF_RESERVED_CPU=0 HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 \
    VLLM_LOGGING_LEVEL=ERROR launch "$1" /health "$(dirname "$vllm_python")/vllm" serve "${model[@]}" --port "$1" --host 127.0.0.1 \
    --kv-cache-memory-bytes $(($2 << 20)) --max-model-len $(($3 - 32)) --enable-prefix-caching --enable-prompt-tokens-details \
    --disable-uvicorn-access-log "${@:4}" >&2
}

baseline="--scheduling-policy fcfs --full-kv --eviction lru"
case $set in
orders)
  model=()
  kib=2               # of KV a token
  multiples=${RATES-} # the paper's
  x_of=0
  engines=( # label|server|flags
    "prefillonly|ours|"
    "prefillonly, one at a time|ours|--max-pass-items 1"
    "paged attention|ours|$baseline --max-pass-items 1 --prefill-chunk 16384"
    "chunked prefill 512|ours|$baseline --max-pass-items 1 --prefill-chunk 512"
    "chunked prefill 4096, batched|ours|$baseline --prefill-chunk 4096"
    "chunked prefill 512, no cache|ours|$baseline --max-pass-items 1 --prefill-chunk 512 --no-enable-prefix-caching"
    "paged attention, no cache|ours|$baseline --max-pass-items 1 --prefill-chunk 16384 --no-enable-prefix-caching"
    "chunked prefill 4096, batched, no cache|ours|$baseline --prefill-chunk 4096 --no-enable-prefix-caching"
  )
  ;;
vllm)
  model=(build/qwen-shape)
  [ -e "${model[0]}/model.safetensors" ] || $(tools/build/go.sh) run ./tools/checkpoint -out "${model[0]}"
  vllm_python=$(tools/peers/vllm.sh)
  kib=12
  out+=/vllm
  multiples=${RATES-inf,0.5,0.8,0.95}
  x_of=1
  engines=(
    "prefillonly|ours|"
    "vLLM|vllm|--block-size 32 --max-num-batched-tokens 4096"
  )
  ;;
*)
  echo "tools/peers/compare.sh: $set is neither orders nor vllm" >&2
  exit 2
  ;;
esac

mkdir -p "$out"

# saturation CACHE FLAGS...: what an engine answers a second with all requests due at once.
saturation() {
  local server flags
  IFS='|' read -r _ server flags <<<"${engines[x_of]}"
  # shellcheck disable=SC2086 # flags are split on purpose
  "$server" "$port" "$1" $(($1 * 1024 / kib)) $flags
  for r in 1 2 3; do
    "$binary" bench serve --base-url "http://127.0.0.1:$port" --seed $((1000 + r)) "${@:2}"
  done | awk '/^request throughput/ { print $3 }' | sort -g | sed -n 2p
  stop
}

# sweep CASE CACHE FLAGS...: every engine at the same rates, round by round.
sweep() {
  local name=$1 cache=$2 x engine round label server flags
  shift 2
  [[ -z $cases || " $cases " == *" $name "* ]] || return 0
  if [ -n "${X-}" ]; then echo "$X"; else saturation "$cache" "$@"; fi >"$work/x"
  read -r x <"$work/x"
  echo "$name: x is $x requests/s" >&2
  for round in $(seq "$rounds"); do
    for engine in "${engines[@]}"; do
      IFS='|' read -r label server flags <<<"$engine"
      [[ $round == 1 || $label != *"no cache" ]] || continue
      # shellcheck disable=SC2086 # flags are split on purpose
      "$server" "$port" "$cache" $((cache * 1024 / kib)) $flags
      "$binary" bench sweep --base-url "http://127.0.0.1:$port" --label "$label" --saturation "$x" --multiples "$multiples" --seed "$round" \
        --csv "$work/$name-$round-$(tr -cs 'a-zA-Z0-9\n' '-' <<<"$label").csv" "$@" >&2
      stop
    done
  done
  "$binary" bench plot "$work/$name"-*.csv --out "$work/$name" --csv "$out/$name.csv" --p99 2s
  for figure in mean p99; do cp "$work/$name/"*-$figure.svg "$out/$name-$figure.svg"; done
}

case $set in
orders) # 4,096 tokens of about 12,600, and 8,192
  sweep post-recommendation 8 --workload post-recommendation --scale 0.15 --scale-users 0.3 --sessions --gap 8ms
  sweep credit-verification 16 --workload credit-verification --scale 0.1 --scale-users 0.7 --sessions
  ;;
vllm)
  # scaled SCALE and mib MIB: of prompts and of a cache, at this length.
  scaled() { awk -v a="$1" -v b="$length" 'BEGIN { print a * b }'; }
  mib() { scaled "$1" | cut -d. -f1; }
  posts=(--workload post-recommendation --scale "$(scaled 0.15)" --scale-users 0.3)
  sweep post-recommendation-whole "$(mib 240)" "${posts[@]}" --num-prompts 150 # 20,480 tokens
  sweep post-recommendation-third "$(mib 48)" "${posts[@]}" --num-prompts 36   # 4,096
  sweep credit-verification 96 --workload credit-verification --scale "$(scaled 0.065)" --scale-users 0.4
  sweep short-prompts 96 --workload short-prompts --scale-users 2
  ;;
esac
