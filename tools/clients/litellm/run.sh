#!/bin/bash
# litellm: completions, embeddings and rankings of a hosted vLLM.
. "$(dirname "$0")/../group.bash"
venv
models lm embedder ranker
LITELLM_LOCAL_MODEL_COST_MAP=True "$python" $here/client.py "$url" "$key"
