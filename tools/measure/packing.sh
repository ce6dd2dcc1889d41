#!/bin/bash
# Measure what packed passes gain: suffixes of N tokens over a resident prefix at the ratio of post
# recommendation (150 over 14,000), or of PREFIX tokens, all due at once, on two servers that differ in --max-pass-items (64
# and 1). Rounds are interleaved and each figure is the median of its rounds. The processor's time that
# the executor took is printed beside the time that passed, since work of others leaves it alone.
#   tools/measure/packing.sh MODEL        ROUNDS=3 REQUESTS=64 SUFFIXES="2 3 4 8 16 32 75 150" PREFIX=4096
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/measure/serve.bash
rounds=${ROUNDS:-3} requests=${REQUESTS:-64}
read -ra suffixes <<<"${SUFFIXES:-2 3 4 8 16 32 75 150}"
model=${1:?"usage: tools/measure/packing.sh MODEL, a checkpoint whose weights do not fit in the caches, such as the one that make bench-cpu leaves in build/peers-model"}
declare -A executor port=([packed]=8131 [alone]=8132) items=([packed]=64 [alone]=1)
for kind in packed alone; do
  serve "${port[$kind]}" "$model" --served-model-name m --max-pass-items "${items[$kind]}" --block-size 16 \
    --kv-cache-memory-bytes 512MiB --max-model-len 16384
  executor[$kind]=$(pgrep -P "${servers[-1]}" -f ' executor ')
done

# trace PREFIX SUFFIX ROUND COUNT: requests of SUFFIX new tokens that no other round has.
trace() {
  awk -v p="$1" -v s="$2" -v r="$3" -v n="$4" 'BEGIN { for (i = 0; i < n; i++)
    printf "{\"at\":0,\"shape\":{\"prefix\":%d,\"prefix_tokens\":%d,\"suffix\":%d,\"suffix_tokens\":%d},\"allowed_token_ids\":[1,2]}\n", s, p, (r * 1000 + i) * 1000 + s, s }'
}

# run KIND TRACE: milliseconds a request, passed and of the processor.
run() {
  local before after
  before=$(ticks "${executor[$1]}")
  "$binary" bench serve --base-url "http://127.0.0.1:${port[$1]}" --workload "$2" >"$work/report"
  after=$(ticks "${executor[$1]}")
  awk -v used=$((after - before)) -v n="$(wc -l <"$2")" -v hz="$(getconf CLK_TCK)" \
    '/^request throughput/ { printf "%.3f %.3f\n", 1000 / $3, 1000 * used / hz / n }' "$work/report"
}
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }

# median FILE COLUMN
median() { sort -g -k "$2,$2" "$1" | awk -v c="$2" '{ v[NR] = $c } END { print v[int((NR + 1) / 2)] }'; }

echo "| suffix | prefix | ms a request, one at a time | packed | gain | processor's ms, one at a time | packed | gain (rounds) |"
echo "|---|---|---|---|---|---|---|---|"
for s in "${suffixes[@]}"; do
  prefix=$((${PREFIX:-s * 14000 / 150} / 16 * 16))
  for kind in packed alone; do # the prefix becomes resident
    trace "$prefix" "$s" 0 2 >"$work/trace" && run $kind "$work/trace" >/dev/null
  done
  for r in $(seq "$rounds"); do
    trace "$prefix" "$s" "$r" "$requests" >"$work/trace"
    for kind in alone packed; do run $kind "$work/trace" >>"$work/$s.$kind"; done
  done
  each=$(paste "$work/$s.alone" "$work/$s.packed" | awk '{ printf "%s%.2f", sep, $2 / $4; sep = " " }')
  echo "$s $prefix $(median "$work/$s.alone" 1) $(median "$work/$s.packed" 1) $(median "$work/$s.alone" 2) $(median "$work/$s.packed" 2)" |
    awk -v each="$each" '{ printf "| %d | %d | %.3g | %.3g | %.2f | %.3g | %.3g | %.2f (%s) |\n", $1, $2, $3, $4, $3 / $4, $5, $6, $5 / $6, each }'
done
