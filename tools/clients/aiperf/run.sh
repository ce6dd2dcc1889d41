#!/bin/bash
# AIPerf, a load generator: whole completions and streamed chats, 4 at a time. Its figures are of a small model and judge nothing.
. "$(dirname "$0")/../group.bash"
venv
models lm
export HF_ENDPOINT=http://127.0.0.1:1 # the tokenizer is a directory, nothing is fetched
for kind in completions "chat --streaming"; do
    out=$work/${kind// /}
    # shellcheck disable=SC2086
    "$build/venv/bin/aiperf" profile --model lm --url "$url" --endpoint-type $kind --api-key "$key" --tokenizer "$PWD/engine/demo/files" --ui none \
        --concurrency 4 --request-count 40 --synthetic-input-tokens-mean 200 --synthetic-input-tokens-stddev 40 --output-tokens-mean 8 \
        --extra-inputs ignore_eos:true --workers-max 2 --use-server-token-count --random-seed 1 --output-artifact-dir "$out" >"$work/log" 2>&1 ||
        { cat "$work/log"; exit 1; }
    "$python" $here/judge.py "$kind" "$out"
done
