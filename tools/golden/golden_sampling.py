#!/usr/bin/env python3
"""Writes engine/sampling/testdata/warpers.json: what transformers' logits processors and warpers leave
of random logits, with ties among them where there is no top_p.

Every case is a row of logits, parameters under the names of vLLM's requests, the tokens generated so
far, and the probabilities that a token is drawn with. The processors run in vLLM's order: bad words,
least length, temperature, min_p, top_k, top_p. Bad words are held against generated tokens alone,
as vLLM does.

    python3 tools/golden/golden_sampling.py    (needs torch, transformers)
"""

import json
import pathlib
import random

import torch
from transformers.generation import logits_process as hf

PATH = pathlib.Path(__file__).resolve().parents[2] / "engine" / "sampling" / "testdata" / "warpers.json"
VOCAB = 24
PROMPT = 1000  # one token that no bad word has


def processors(case):
    """The processors of a case, in vLLM's order."""
    if case["bad_words"]:
        yield hf.NoBadWordsLogitsProcessor(case["bad_words"])
    if case["min_tokens"]:
        yield hf.MinNewTokensLengthLogitsProcessor(1, case["min_tokens"], case["stop_token_ids"])
    if case["temperature"] != 1:
        yield hf.TemperatureLogitsWarper(case["temperature"])
    if case["min_p"]:
        yield hf.MinPLogitsWarper(case["min_p"])
    if case["top_k"]:
        yield hf.TopKLogitsWarper(case["top_k"])
    if case["top_p"] < 1:
        yield hf.TopPLogitsWarper(case["top_p"])


def probabilities(case):
    generated = torch.tensor([[PROMPT] + case["generated"]], dtype=torch.long)
    scores = torch.tensor([case["logits"]], dtype=torch.float32)
    for processor in processors(case):
        scores = processor(generated, scores)
    return torch.softmax(scores, dim=-1)[0].tolist()


def make(rng):
    token = lambda: rng.randrange(VOCAB)
    generated = [token() for _ in range(rng.choice([0, 1, 2, 5]))]
    word = generated[-rng.randrange(1, 4):] + [token()]
    top_p = rng.choice([1.0, 1.0, 0.9, 0.5, 0.1])
    # Which of equals is inside a nucleus is left to chance by torch's sort.
    levels = rng.choices(range(-32, 32), k=VOCAB) if top_p == 1 else rng.sample(range(-32, 32), VOCAB)
    return {
        "logits": [level / 8 for level in levels],
        "generated": generated,
        "temperature": rng.choice([1.0, 1.0, 0.5, 0.8, 2.0]),
        "min_p": rng.choice([0, 0, 0.01, 0.1, 0.3, 1.0]),
        "top_k": rng.choice([0, 0, 1, 3, 8, 100]),
        "top_p": top_p,
        "min_tokens": rng.choice([0, 0, 1, 3]),
        "stop_token_ids": [token(), token()],
        "bad_words": rng.choice([[], [[token()], word], [word, [token(), token()]]]),
    }


def main():
    rng = random.Random(17)
    cases = [make(rng) for _ in range(200)]
    for case in cases:
        case["probabilities"] = [float(f"{p:.7g}") for p in probabilities(case)]
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")


main()
