"""Writes checkpoints made of the demo model's files, for clients of embeddings and rankings: an embedder as sentence-transformers
saves one, a reranker and a classifier with random heads.

Usage: make_scorers.py DEMO_FILES OUT
"""
import json
import pathlib
import random
import shutil
import struct
import sys

source, out = map(pathlib.Path, sys.argv[1:3])
random.seed(1)
config = json.loads((source / "config.json").read_text())


def begin(name, **changes):
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in source.iterdir():
        shutil.copy(file, folder)
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
    return folder


def add_head(folder, labels):
    """Adds score.weight behind the tensors of a safetensors file."""
    raw = (folder / "model.safetensors").read_bytes()
    size, = struct.unpack("<Q", raw[:8])
    header, data = json.loads(raw[8:8 + size]), raw[8 + size:]
    weight = struct.pack(f"<{labels * config['hidden_size']}f", *(random.gauss(0, 0.05) for _ in range(labels * config["hidden_size"])))
    header["score.weight"] = {"dtype": "F32", "shape": [labels, config["hidden_size"]], "data_offsets": [len(data), len(data) + len(weight)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data + weight)


embedder = begin("embedder")
(embedder / "modules.json").write_text(json.dumps([
    {"idx": i, "name": str(i), "path": path, "type": "sentence_transformers.models." + kind}
    for i, (path, kind) in enumerate([("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")])]))
(embedder / "1_Pooling").mkdir()
(embedder / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": config["hidden_size"], "pooling_mode_mean_tokens": True}))
(embedder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {"query": "query: "}, "default_prompt_name": None, "similarity_fn_name": "cosine"}))
for name, labels in {"ranker": ["LABEL_0"], "classifier": ["no", "maybe", "yes"]}.items():
    folder = begin(name, architectures=["LlamaForSequenceClassification"], id2label={str(i): label for i, label in enumerate(labels)})
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    tokenizer.pop("chat_template", None)  # sentence-transformers would make pairs by it
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    add_head(folder, len(labels))
