#!/bin/bash
# cohere: rankings, as Cohere's API has them.
. "$(dirname "$0")/../group.bash"
venv
models ranker
"$python" $here/client.py "$url" "$key"
