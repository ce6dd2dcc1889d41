#!/bin/bash
# lm-eval: its local-completions model and its remote tokenizer.
. "$(dirname "$0")/../group.bash"
venv
models lm
OPENAI_API_KEY=$key "$python" $here/loglikelihoods.py "$url/v1/completions"
