#!/bin/bash
# Measure an LLM's prompts without pause beside cameras: on one server, whose scheduler knows of both, and on two servers
# that share the machine as the operating system has it. Before that each alone.
#   tools/together.sh NETWORK.onnx        CAMERAS=2 FPS=10 DEADLINE=100ms SECONDS_EACH=300 TOKENS=4000
set -euo pipefail
cd "$(dirname "$0")/.."
network=${1:?give a network that takes pictures, as an ONNX file}
. tools/serve.bash
cameras=${CAMERAS:-2} fps=${FPS:-10} deadline=${DEADLINE:-100ms} seconds=${SECONDS_EACH:-300} alone=${SECONDS_ALONE:-60} tokens=${TOKENS:-4000}
llm=${LLM:-build/models/a} # of Qwen2.5-0.5B's shape, made once
[ -e "$llm/model.safetensors" ] || go run ./tools/checkpoint -out "$llm" -seed 1

limit=(--max-model-len 8192)

# prompts PORT SECONDS: tokens a second of prompts one after the other, none like another.
prompts() {
  awk -v n="$tokens" 'BEGIN { for (i = 0; i < 10000; i++)
    printf "{\"at\":0,\"shape\":{\"prefix\":0,\"prefix_tokens\":0,\"suffix\":%d,\"suffix_tokens\":%d},\"allowed_token_ids\":[1,2]}\n", i + 1, n }' >"$work/trace"
  timeout -s INT "$2" "$binary" bench serve --base-url "http://127.0.0.1:$1" --model llm --workload "$work/trace" --max-concurrency 1 --csv "$work/prompts.csv" >/dev/null 2>&1 || true
  awk -F, 'NR > 1 && $8 == 200 { n++; if (n == 1) first = $6; else sum += $9; last = $6 } END { if (n > 1) printf "%.1f", sum / (last - first); else print 0 }' "$work/prompts.csv"
}

# frames PORT SECONDS: what became of the cameras' frames.
frames() {
  "$binary" bench cameras --base-url "http://127.0.0.1:$1" --model network --cameras "$cameras" --fps "$fps" --deadline "$deadline" --duration "$2s" $3
}

# both PORT PORT SECONDS FLAGS: prompts on the first port, frames on the second one.
both() {
  prompts "$1" "$3" >"$work/rate" &
  local running=$!
  sleep 2
  frames "$2" $(($3 - 4)) "${4:-}" >"$work/frames"
  wait $running
}

row() { # NAME: of what both has left
  awk -v name="$1" -v rate="$(cat "$work/rate")" -v alone="$whole" -v load="$load" '
    /^frames/ { split($0, a, /[ :,]+/); sent = a[2]; intime = a[3]; late = a[6]; refused = a[8] }
    /^latency/ { p50 = $3; p99 = $6; worst = $9 }
    END { printf "| %s | %d of %d | %d | %d | %s, %s, %s | %s | %.2f |\n", name, intime, sent, late, refused, p50, p99, worst, rate, rate / (alone * (1 - load)) }' "$work/frames"
}

serve 8151 "llm=$llm" "network=$network" "${limit[@]}"
frames 8151 "$alone" "" >"$work/alone"
cat "$work/alone" >&2
load=$(awk -v c="$cameras" -v f="$fps" '/^computing/ { print $2 / 1000 * c * f }' "$work/alone")
whole=$(prompts 8151 "$alone")
echo "alone: $whole tokens/s; frames keep $load of the device busy" >&2
both 8151 8151 "$seconds"
together=$(row "one server")
stop
serve 8151 "llm=$llm" "${limit[@]}"
serve 8152 "network=$network" "${limit[@]}"
both 8151 8152 "${SECONDS_APART:-$seconds}" --best-effort
echo "| | in time | late | refused | P50, P99, worst, ms | tokens/s | of what frames leave |"
echo "|---|---|---|---|---|---|---|"
echo "$together"
row "two servers"
