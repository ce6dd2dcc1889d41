#!/usr/bin/env python3
"""Writes vectors.json beside golden.json of engine/model's testdata: vectors of the final hidden states by each pooling of
sentence-transformers, and logits of a classification head of three labels, by transformers in float32. Weights and prompt are
those of golden.py.

    python3 tools/golden/golden_vectors.py            rewrite those of NAMES (needs torch, transformers, sentence-transformers)
    python3 tools/golden/golden_vectors.py NAME ...   only these directories
"""

import json
import sys

import golden
import numpy as np
import torch
import transformers
from sentence_transformers.sentence_transformer.modules import Pooling

NAMES = ["llama3", "mistral", "qwen2", "qwen3"]
LENGTHS = [1, 17, 257, 700]  # one token, within a block, and more than one chunk of rows
MODES = ["lasttoken", "cls", "mean", "max", "mean_sqrt_len_tokens", "weightedmean"]
LABELS = 3


def classifier(directory, config):
    model = transformers.AutoModelForSequenceClassification.from_config(
        transformers.AutoConfig.from_pretrained(directory, num_labels=LABELS), dtype=torch.float32, attn_implementation="eager"
    )
    state = {k: torch.from_numpy(golden.tensor(k, tuple(v.shape), config["dtype"]).copy()) for k, v in model.state_dict().items()}
    model.load_state_dict(state, strict=True)
    model.config.pad_token_id = config["vocab_size"] - 1
    return model.float().eval()


def write(name):
    directory = golden.ROOT / name
    config = json.loads((directory / "config.json").read_text())
    tokens = golden.prompt(LENGTHS[-1], config["vocab_size"])
    model = classifier(directory, config)
    cases = []
    for n in LENGTHS:
        ids = torch.from_numpy(tokens[:n])[None]
        with torch.no_grad():
            states = model.model(ids, use_cache=False).last_hidden_state
            logits = model.score(states[0, -1])
        features = {"token_embeddings": states, "attention_mask": torch.ones_like(ids)}
        vectors = {mode: Pooling(config["hidden_size"], mode)(dict(features))["sentence_embedding"][0] for mode in MODES}
        cases.append({
            "length": n, "logits": [round(v, 5) for v in logits.tolist()],
            "vectors": {mode: np.round(v.numpy().astype(float), 4).tolist() for mode, v in vectors.items()},
        })
    rows = ",\n".join("    " + json.dumps(c) for c in cases)
    (directory / "vectors.json").write_text(
        f'{{\n  "transformers": "{transformers.__version__}",\n  "torch": "{torch.__version__}",\n  "cases": [\n{rows}\n  ]\n}}\n')


if __name__ == "__main__":
    for name in sys.argv[1:] or NAMES:
        write(name)
