#!/bin/bash
# Measure an LLM's prompts without pause beside video: on one server, whose scheduler knows of both, and on two servers
# that share the machine as the operating system has it. Before that each alone.
#   tools/measure/together.sh NETWORK.onnx              frames of cameras, each a request of the Open Inference Protocol
#   tools/measure/together.sh NETWORK.onnx CLIP         live streams of a file, which the server reads, by DECODER=yolox
#   METHOD=oneadapt:... tools/measure/together.sh NETWORK.onnx CLIP     the same as cameras send them; deadlines are a segment's, and ONLY_TOGETHER=1 leaves out the rest
#   CAMERAS=2 FPS=10 DEADLINE=100 (ms) SECONDS_EACH=300 SECONDS_APART=300 SECONDS_ALONE=60 TOKENS=4000 (of a prompt)
# Three prompts at least are measured alone: SECONDS_ALONE is to be above 40 for prompts of 4,000 tokens.
set -euo pipefail
cd "$(dirname "$0")/../.."
network=${1:?give a network that takes pictures, as an ONNX file} clip=${2:-}
. tools/measure/serve.bash
cameras=${CAMERAS:-2} fps=${FPS:-10} deadline=${DEADLINE:-100} seconds=${SECONDS_EACH:-300} alone=${SECONDS_ALONE:-60} tokens=${TOKENS:-4000}
llm=${LLM:-build/models/a} # of Qwen2.5-0.5B's shape, made once
[ -e "$llm/model.safetensors" ] || go run ./tools/checkpoint -out "$llm" -seed 1

llm="{path: $(realpath "$llm"), name: llm, max-model-len: 8192}"
network=$(network_entry "$network")
files=(${clip:+--video-files "$(dirname "$clip")"})

# prompts PORT SECONDS: tokens a second of prompts one after the other, none like another; how many, and the P50, P99 and worst of their seconds.
prompts() {
  awk -v n="$tokens" 'BEGIN { for (i = 0; i < 10000; i++)
    printf "{\"at\":0,\"shape\":{\"prefix\":0,\"prefix_tokens\":0,\"suffix\":%d,\"suffix_tokens\":%d},\"allowed_token_ids\":[1,2]}\n", i + 1, n }' >"$work/trace"
  timeout -s INT "$2" "$binary" bench serve --base-url "http://127.0.0.1:$1" --model llm --workload "$work/trace" --max-concurrency 1 --csv "$work/prompts.csv" >/dev/null 2>&1 || true
  awk -F, 'NR > 1 && $8 == 200 { n++; if (n == 1) first = $6; else sum += $9; last = $6 } END { printf "%.1f %d ", (n > 1 ? sum / (last - first) : 0), n }' "$work/prompts.csv"
  awk -F, 'NR > 1 && $8 == 200 { print $7 }' "$work/prompts.csv" | percentiles
}

# percentiles: the P50, P99 and worst of the numbers that it reads.
percentiles() {
  sort -n | awk '{ v[NR] = $1 }
    function of(p, i) { i = int(p * NR + 0.999999); return v[i < 1 ? 1 : i] }
    END { if (NR) printf "%.1f %.1f %.1f\n", of(0.5), of(0.99), v[NR]; else print "- - -" }'
}

# frames PORT SECONDS FLAGS: what became of the frames that were asked for: how many, in time, late, refused, with the P50, P99 and worst of their
# ms, and the ms of the device that a frame took.
frames() {
  if [ -n "$clip" ]; then streams "$1" "$2"; return; fi
  "$binary" bench cameras --base-url "http://127.0.0.1:$1" --model network --cameras "$cameras" --fps "$fps" --deadline "${deadline}ms" --duration "$2s" $3 |
    awk '/^frames/ { split($0, a, /[ :,]+/); printf "%d %d %d %d ", a[2], a[3], a[6], a[8] }
      /^latency/ { printf "%s %s %s ", $3, $6, $9 } /^computing/ { c = $2 } END { print c + 0 }'
}

# streams PORT SECONDS: the same of live streams.
streams() {
  local url="http://127.0.0.1:$1/v1/video/streams" i source running=()
  source="\"$(basename "$clip")\",\"loop\":true"
  [ -z "${METHOD:-}" ] || source="\"camera\",\"method\":\"$METHOD\""
  for i in $(seq "$cameras"); do
    curl -s --fail-with-body --retry 10 --retry-delay 1 "$url" -o "$work/declared" \
      -d "{\"name\":\"s$i\",\"model\":\"network\",\"source\":$source,\"rate\":$fps,\"deadline_ms\":$deadline}" || { cat "$work/declared" >&2; return 1; }
  done
  for i in $(seq "$cameras"); do
    curl -sN -m "$2" -H 'Accept: application/x-ndjson' "$url/s$i/results?after=0" >"$work/s$i" & # ends by itself
    running+=($!)
    [ -z "${METHOD:-}" ] || { timeout -s INT "$2" "$(dirname "$binary")/camera" run --server "http://127.0.0.1:$1" --stream "s$i" --source "$clip" --rate "$fps" --loop >/dev/null 2>&1 & running+=($!); }
  done
  wait "${running[@]}" || true
  for i in $(seq "$cameras"); do curl -fsS "$url/s$i" && curl -fsS -X DELETE "$url/s$i" -o /dev/null; done >"$work/states"
  cat "$work"/s[0-9]* | awk '/"final":true/ { n++; if (/"dropped":/) gone++; else if (/"late":true/) late++ } END { printf "%d %d %d %d ", n, n - late - gone, late, gone }'
  cat "$work"/s[0-9]* | sed -n '/"dropped":/!s/.*"final":true.*"latency_ms":\([0-9.]*\).*/\1/p' | percentiles | tr '\n' ' '
  sed 's/.*"frames":\([0-9]*\).*"queue_s":[^,]*,"device_s":\([0-9.e-]*\).*/\1 \2/' "$work/states" | awk '{ n += $1; s += $2 } END { print n ? 1000 * s / n : 0 }'
  [ -z "${METHOD:-}" ] || grep -o '"gradients":{[^}]*}' "$work/states" >&2
}

# both PORT PORT SECONDS FLAGS: prompts on the first port, frames on the second one.
both() {
  prompts "$1" "$3" >"$work/prompts" &
  local running=$!
  sleep 2
  frames "$2" $(($3 - 4)) "${4:-}" >"$work/frames"
  wait $running
}

row() { # NAME: of what both has left
  awk -v name="$1" -v alone="$whole" -v load="$load" '
    NR == FNR { sent = $1; intime = $2; late = $3; refused = $4; times = $5 ", " $6 ", " $7; next }
    { printf "| %s | %d of %d | %d | %d | %s | %d: %s, %s, %s | %s | %.2f |\n", name, intime, sent, late, refused, times, $2, $3, $4, $5, $1, $1 / (alone * (1 - load)) }
  ' "$work/frames" "$work/prompts"
}

serve_models 8151 "$llm" "$network" -- "${files[@]}"
if [ -n "${ONLY_TOGETHER:-}" ]; then
  both 8151 8151 "$seconds"
  read -r sent intime late refused p50 p99 worst cost <"$work/frames"
  read -r speed count q50 q99 slowest <"$work/prompts"
  echo "frames: $intime of $sent in time, $late late, $refused refused or dropped; P50, P99, worst $p50, $p99, $worst ms; $cost ms of the device each, with gradients"
  echo "prompts: $count; P50, P99, worst $q50, $q99, $slowest s; $speed tokens/s"
  exit
fi
frames 8151 "$alone" "" >"$work/alone"
read -r sent intime late refused p50 p99 worst cost <"$work/alone"
load=$(awk "BEGIN { print $cost / 1000 * $cameras * $fps }")
read -r whole count q50 q99 slowest < <(prompts 8151 "$alone")
both 8151 8151 "$seconds"
together=$(row "one server")
stop
serve_models 8151 "$llm"
serve_models 8152 "$network" -- "${files[@]}"
both 8151 8152 "${SECONDS_APART:-$seconds}" --best-effort
echo "| | in time | late | refused or dropped | P50, P99, worst, ms | prompts: P50, P99, worst, s | tokens/s | of what frames leave |"
echo "|---|---|---|---|---|---|---|---|"
echo "| frames alone | $intime of $sent | $late | $refused | $p50, $p99, $worst | | | |"
echo "| prompts alone | | | | | $count: $q50, $q99, $slowest | $whole | |"
echo "$together"
row "two servers"
echo
echo "Frames keep $load of the device busy, $cost ms each."
