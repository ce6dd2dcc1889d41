#!/bin/bash
# Sweep the request rate over this engine and the paper's baselines on this machine's CPU: both
# workloads at their ratios, scaled to the demo model's speed, all with a prefix cache that holds about a
# third of the users' profiles. About twenty minutes; CSV files and figures go to bench/results/cpu.
#
# The baselines are this executor scheduled as those engines schedule: first come, first served, whole
# KV kept, least recently used evicted.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${PREFILLONLY:-bin/prefillonly}
out=bench/results/cpu
port=8123
mkdir -p "$out"

baseline="--scheduling-policy fcfs --full-kv --eviction lru"
engines=(
  "prefillonly|"
  "prefillonly, one at a time|--max-pass-items 1"
  "paged attention|$baseline --max-pass-items 1 --prefill-chunk 16384"
  "chunked prefill 512|$baseline --max-pass-items 1 --prefill-chunk 512"
  "chunked prefill 4096, batched|$baseline --prefill-chunk 4096"
  "paged attention, no cache|$baseline --max-pass-items 1 --prefill-chunk 16384 --no-enable-prefix-caching"
  "chunked prefill 4096, batched, no cache|$baseline --prefill-chunk 4096 --no-enable-prefix-caching"
)

server=
stop() { [ -z "$server" ] || { kill "$server" && wait "$server" || true; server=; }; }
trap stop EXIT

start() { # flags...
  "$binary" serve --port $port --no-access-log --log-level warn "$@" &
  server=$!
  for _ in $(seq 100); do
    curl -fs "localhost:$port/ready" >/dev/null && return
    sleep 0.2
  done
  echo "compare.sh: the server is not ready after 20 s" >&2
  return 1
}

# sweep WORKLOAD CACHE FLAGS...: every engine at the rates that the first one's saturation gives.
sweep() {
  local workload=$1 cache=$2 x=0
  shift 2
  for engine in "${engines[@]}"; do
    local label=${engine%%|*} csv
    csv="$out/$workload-$(tr -cs 'a-z0-9\n' '-' <<<"$label").csv"
    # shellcheck disable=SC2086 # flags are split on purpose
    start --kv-cache-memory-bytes "$cache" ${engine#*|}
    "$binary" bench sweep --base-url "http://127.0.0.1:$port" --workload "$workload" --label "$label" --saturation "$x" --csv "$csv" "$@"
    [ "$x" != 0 ] || x=$(awk -F, '$3 == "+Inf" { print $4 }' "$csv")
    stop
  done
  "$binary" bench plot "$out/$workload"-*.csv --out "$out" --p99 2s
}

# 2 KiB of KV a token: 8 MiB hold 4,096 tokens of about 12,600, 16 MiB 8,192.
sweep post-recommendation 8MiB --scale 0.15 --scale-users 0.3 --sessions --gap 8ms
sweep credit-verification 16MiB --scale 0.1 --scale-users 0.7 --sessions
