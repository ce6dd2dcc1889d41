#!/bin/bash
# huggingface_hub: a server of one embedder and one of one classifier, as text-embeddings-inference is; and the cache of models that it shares
# with the program, from a hub of our own.
. "$(dirname "$0")/../group.bash"
venv
for model in embedder classifier; do
    models $model
    "$python" $here/tei.py $model "$url" "$key"
    stop
done

"$(tools/build/go.sh)" build -o "$build/hub" ./tools/hub
"$build/hub" org/demo=engine/demo/files >"$work/hub" &
servers+=($!)
until [ -s "$work/hub" ]; do
    kill -0 "${servers[-1]}"
    sleep 0.1
done
"$python" $here/cache.py "$binary" "$(cat "$work/hub")" "$work/cache" org/demo
stop
