#!/bin/bash
# Jina's integration of Haystack: embeddings and rankings, as Jina's API has them.
. "$(dirname "$0")/../group.bash"
venv
models embedder ranker
HAYSTACK_TELEMETRY_ENABLED=False JINA_API_KEY=$key "$python" $here/client.py "$url/v1"
