#!/usr/bin/env python3
"""Writes the golden files of engine/encoder with transformers, in float32, on weights that need no file: those of golden.py.

Each directory below engine/encoder/testdata holds a config.json. For prompts of several lengths, golden.json gets the mean
and the first of the final hidden states, which sentence-transformers pools, and the logits of a classification head where the
architecture has one. A prompt is random tokens; where golden_pair is set, its middle one is that separator, and tokens
behind it are of type 1.

    python3 tools/golden/golden_encoders.py            rewrite every golden.json (needs torch, transformers, numpy)
    python3 tools/golden/golden_encoders.py NAME ...   only these directories
    python3 tools/golden/golden_encoders.py --checkpoint NAME DIRECTORY [KEY=NUMBER ...]   only write the checkpoint, with other sizes
"""

import json
import pathlib
import sys

import golden
import numpy as np
import torch
import transformers

ROOT = golden.ROOT.parent.parent / "encoder" / "testdata"
LENGTHS = [1, 5, 33, 64, 130, 300, 500, 700]
RESERVED = 5  # tokens that are padding, separators and the like


def build(directory, config):
    settings = transformers.AutoConfig.from_pretrained(directory)
    architecture = getattr(transformers, config["architectures"][0])
    model = architecture._from_config(settings, dtype=torch.float32, attn_implementation="eager").eval()
    parameters = model.named_parameters(remove_duplicate=False)
    for name, value in sorted(parameters, key=lambda p: p[0].startswith(model.base_model_prefix + ".")):  # the trunk's names of shared ones
        value.data.copy_(torch.from_numpy(golden.tensor(name, tuple(value.shape), config["dtype"]).copy()))
    return model


def prompt(length, config):
    tokens = RESERVED + golden.prompt(length, config["vocab_size"] - RESERVED)
    types = np.zeros_like(tokens)
    if "golden_pair" in config and length > 2:
        tokens[length // 2] = config["golden_pair"]
        types[length // 2 + 1 :] = 1
    return tokens, types


def rounded(values):
    return [round(v, 5) for v in values.tolist()]


def case(model, config, length):
    tokens, types = prompt(length, config)
    inputs = {"input_ids": torch.from_numpy(tokens)[None]}
    if "golden_pair" in config:
        inputs["token_type_ids"] = torch.from_numpy(types)[None]
    with torch.no_grad():
        states = model.base_model(**inputs).last_hidden_state[0]
        result = {"length": length, "mean": rounded(states.mean(dim=0)), "first": rounded(states[0])}
        if "ForSequenceClassification" in config["architectures"][0]:
            result["logits"] = rounded(model(**inputs).logits[0])
    return result


def write(name):
    directory = ROOT / name
    config = json.loads((directory / "config.json").read_text())
    model = build(directory, config)
    cases = [case(model, config, n) for n in LENGTHS if n <= config["golden_length"]]
    rows = ",\n".join("    " + json.dumps(c) for c in cases)
    versions = f'  "transformers": "{transformers.__version__}",\n  "torch": "{torch.__version__}",\n'
    (directory / "golden.json").write_text("{\n" + versions + '  "cases": [\n' + rows + "\n  ]\n}\n")
    print(name, [c["length"] for c in cases])


def checkpoint(name, directory, changes):
    config = json.loads((ROOT / name / "config.json").read_text())
    for change in changes:
        key, number = change.split("=")
        config[key] = int(number)
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    build(directory, config).save_pretrained(directory)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--checkpoint"]:
        checkpoint(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        for one in sys.argv[1:] or sorted(p.parent.name for p in ROOT.glob("*/config.json")):
            write(one)
