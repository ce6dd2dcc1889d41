#!/bin/bash
# huggingface_hub: a server of one embedder and one of one classifier, as text-embeddings-inference is.
. "$(dirname "$0")/../group.bash"
venv
for model in embedder classifier; do
    models $model
    "$python" $here/tei.py $model "$url" "$key"
    stop
done
