#!/bin/bash
# outlines: its OpenAI and its vLLM models, by types, schemas, regular expressions and grammars.
. "$(dirname "$0")/../group.bash"
venv
models lm
"$python" $here/client.py "$url/v1" "$key"
