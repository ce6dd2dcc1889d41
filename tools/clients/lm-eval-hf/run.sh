#!/bin/bash
# lm-eval: the same figures through local-completions as by its own backend of transformers. Needs torch.
. "$(dirname "$0")/../group.bash"
venv
models lm
HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 HF_HOME=$work/hf OPENAI_API_KEY=$key "$python" $here/backends.py engine/demo/files "$url/v1/completions" "$work"
