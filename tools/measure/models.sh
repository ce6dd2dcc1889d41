#!/bin/bash
# Measure three models of Qwen2.5-0.5B's shape in memory for two: Poisson requests over models a, b and c in the
# shares 0.6, 0.3 and 0.1, on two servers that differ in the order of jobs and of loads: the default, and --scheduling-policy fcfs,
# which loads models in the order of the requests for them and drops the one that was used longest ago.
# Rounds are interleaved; each figure is the median of its rounds.
#   tools/measure/models.sh        ROUNDS=3 SECONDS_A_ROUND=120 RATE=1 TOKENS=200
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/measure/serve.bash
rounds=${ROUNDS:-3} seconds=${SECONDS_A_ROUND:-120} rate=${RATE:-1} tokens=${TOKENS:-200}
models=${MODELS:-build/models} # made once: a, b and c
for seed in 1 2 3; do
  name=$(printf "\\x$((60 + seed))")
  [ -e "$models/$name/model.safetensors" ] || go run ./tools/checkpoint -out "$models/$name" -seed "$seed"
done

# common is what both servers are told: room for the weights of two models.
common=("a=$models/a" "b=$models/b" "c=$models/c" --max-model-len 4096 --memory "${ROOM:-2400MiB}" --kv-cache-memory-bytes 96MiB)

# trace SEED: requests of TOKENS random tokens at Poisson times.
trace() {
  awk -v seed="$1" -v t="$seconds" -v rate="$rate" -v n="$tokens" 'BEGIN { srand(seed)
    for (at = 0; ; i++) { at -= log(1 - rand()) / rate; if (at > t) exit
      u = rand(); m = u < 0.6 ? "a" : u < 0.9 ? "b" : "c"
      printf "{\"at\":%.4f,\"model\":\"%s\",\"shape\":{\"prefix\":0,\"prefix_tokens\":0,\"suffix\":%d,\"suffix_tokens\":%d},\"allowed_token_ids\":[1,2]}\n", at, m, seed * 1000000 + i, n } }'
}

# loads PORT: times that models have become ready.
loads() { curl -s "localhost:$1/metrics" | awk '/^prefillonly:model_loads_total/ { n += $2 } END { print n + 0 }'; }

declare -A port=([default]=8141 [fcfs]=8142)
serve 8141 "${common[@]}"
serve 8142 "${common[@]}" --scheduling-policy fcfs
for r in $(seq "$rounds"); do
  trace "$r" >"$work/trace"
  for kind in default fcfs; do
    before=$(loads "${port[$kind]}")
    "$binary" bench serve --base-url "http://127.0.0.1:${port[$kind]}" --model a --workload "$work/trace" --csv "$work/out.csv" >"$work/report"
    after=$(loads "${port[$kind]}")
    awk -F, -v loads=$((after - before)) 'NR > 1 { n++; if ($8 != 200) failed++; v[n] = $7; sum += $7 }
      END { for (i = 2; i <= n; i++) { x = v[i]; for (k = i - 1; k > 0 && v[k] > x; k--) v[k + 1] = v[k]; v[k + 1] = x }
        printf "%d %d %d %.3f %.3f\n", n, failed, loads, sum / n, v[int(n * 0.99 + 0.5)] }' "$work/out.csv" >>"$work/$kind"
  done
done

median() { sort -g -k "$2,$2" "$1" | awk -v c="$2" '{ v[NR] = $c } END { print v[int((NR + 1) / 2)] }'; }
echo "| order | requests | failed | loads | mean, s | P99, s |"
echo "|---|---|---|---|---|---|"
for kind in fcfs default; do
  echo "| $kind | $(median "$work/$kind" 1) | $(median "$work/$kind" 2) | $(median "$work/$kind" 3) | $(median "$work/$kind" 4) | $(median "$work/$kind" 5) |"
done
