#!/bin/bash
# Sweep the request rate over this engine and the paper's baselines on this machine's CPU: both
# workloads at their ratios, scaled to the demo model's speed, all with a prefix cache that holds about a
# third of the users' profiles. The engines take turns, for ROUNDS rounds (3), so that other work on the
# machine slows all of them alike; medians and the spread of the rounds are printed, and CSV files of the
# medians and figures go to bench/results/cpu. About 25 minutes on two quiet cores; arguments choose:
#   tools/compare.sh [post-recommendation] [credit-verification]
#
# The baselines are this executor scheduled as those engines schedule: first come, first served, whole
# KV kept, least recently used evicted. Those without a prefix cache, which are never near the others, run
# in the first round alone.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/serve.bash
out=${OUT:-bench/results/cpu}
port=8123
rounds=${ROUNDS:-3}
workloads=${*:-post-recommendation credit-verification}
mkdir -p "$out"

baseline="--scheduling-policy fcfs --full-kv --eviction lru"
engines=(
  "prefillonly|"
  "prefillonly, one at a time|--max-pass-items 1"
  "paged attention|$baseline --max-pass-items 1 --prefill-chunk 16384"
  "chunked prefill 512|$baseline --max-pass-items 1 --prefill-chunk 512"
  "chunked prefill 4096, batched|$baseline --prefill-chunk 4096"
  "chunked prefill 512, no cache|$baseline --max-pass-items 1 --prefill-chunk 512 --no-enable-prefix-caching"
  "paged attention, no cache|$baseline --max-pass-items 1 --prefill-chunk 16384 --no-enable-prefix-caching"
  "chunked prefill 4096, batched, no cache|$baseline --prefill-chunk 4096 --no-enable-prefix-caching"
)

# saturation WORKLOAD CACHE FLAGS...: what the first engine answers a second with all requests due at once.
saturation() {
  local workload=$1 cache=$2
  shift 2
  serve "$port" --kv-cache-memory-bytes "$cache"
  for r in 1 2 3; do
    "$binary" bench serve --base-url "http://127.0.0.1:$port" --workload "$workload" --seed $((1000 + r)) "$@"
  done | awk '/^request throughput/ { print $3 }' | sort -g | sed -n 2p
  stop
}

# sweep WORKLOAD CACHE FLAGS...: every engine at the same rates, round by round.
sweep() {
  local workload=$1 cache=$2 x
  shift 2
  [[ " $workloads " == *" $workload "* ]] || return 0
  saturation "$workload" "$cache" "$@" >"$work/x"
  read -r x <"$work/x"
  echo "$workload: x is $x requests/s" >&2
  for round in $(seq "$rounds"); do
    for engine in "${engines[@]}"; do
      local label=${engine%%|*}
      [[ $round == 1 || $label != *"no cache" ]] || continue
      # shellcheck disable=SC2086 # flags are split on purpose
      serve "$port" --kv-cache-memory-bytes "$cache" ${engine#*|}
      "$binary" bench sweep --base-url "http://127.0.0.1:$port" --workload "$workload" --label "$label" --saturation "$x" --seed "$round" \
        --csv "$work/$workload-$round-$(tr -cs 'a-z0-9\n' '-' <<<"$label").csv" "$@" >&2
      stop
    done
  done
  "$binary" bench plot "$work/$workload"-*.csv --out "$out" --csv "$out/$workload.csv" --p99 2s
}

# 2 KiB of KV a token: 8 MiB hold 4,096 tokens of about 12,600, 16 MiB 8,192.
sweep post-recommendation 8MiB --scale 0.15 --scale-users 0.3 --sessions --gap 8ms
sweep credit-verification 16MiB --scale 0.1 --scale-users 0.7 --sessions
