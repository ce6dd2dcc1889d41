#!/bin/bash
# cohere: rankings and vectors, as Cohere's API has them.
. "$(dirname "$0")/../group.bash"
venv
models ranker embedder
"$python" $here/client.py "$url" "$key"
