#!/bin/bash
# DSPy: predictions of Literals through its adapters, and decisions through its client of System One.
. "$(dirname "$0")/../group.bash"
venv
models lm
export LITELLM_LOCAL_MODEL_COST_MAP=True DSPY_CACHEDIR=$work/dspy
"$python" $here/client.py "$url" "$key"
