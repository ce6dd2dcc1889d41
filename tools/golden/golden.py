#!/usr/bin/env python3
"""Writes the golden files of engine/model with transformers, on weights that need no file.

Each directory below engine/model/testdata holds a config.json (golden_quantized.py does those with a
quantization_config). Weights and prompt are hashes of a
seed, a name and an index (engine/weights/random.go makes the same bits). For some lengths of one
random prompt, golden.json gets the five likeliest next tokens and their logprobs in float32, the
logprobs of the prompt's first tokens, and how far transformers' own bfloat16 run is from these
five at these lengths, at the most and on average.

    python3 tools/golden/golden.py            rewrite every golden.json (needs torch, transformers, numpy)
    python3 tools/golden/golden.py NAME ...   only these directories
    python3 tools/golden/golden.py --bits     print the elements that TestRandomBits pins (needs numpy)
"""

import json
import math
import pathlib
import sys

import numpy as np

SEED = 1
ROOT = pathlib.Path(__file__).resolve().parents[2] / "engine" / "model" / "testdata"
MASK = (1 << 64) - 1
STEP = 0x9E3779B97F4A7C15
LENGTHS = [1, 3, 4, 16, 17, 33, 64, 100, 130, 200, 257, 333, 512, 700, 1000, 2000, 3000, 4000]
PROMPT_SCORES = 40


def splitmix(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def fnv1a(name):
    h = 0xCBF29CE484222325
    for b in name.encode():
        h = ((h ^ b) * 0x100000001B3) & MASK
    return h


def stream(name, count):
    """The first count 64-bit hashes of (SEED, name)."""
    with np.errstate(over="ignore"):
        key = splitmix(np.array([SEED ^ fnv1a(name)], dtype=np.uint64))
        return splitmix(key + np.arange(count, dtype=np.uint64) * np.uint64(STEP))


def spread(name, cols):
    deviation, offset = 1 / math.sqrt(cols), 0.0
    if name.endswith(("norm.weight", "Norm.weight")):
        deviation, offset = 0.125, 1.0
    elif name.endswith(".bias"):
        deviation = 0.25
    elif "lm_head" in name or "embed_tokens" in name:
        deviation *= 3
    return np.float32(deviation / 37837.0), np.float32(offset)


def round_bf16(values):
    bits = values.view(np.uint32)
    with np.errstate(over="ignore"):
        return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


def tensor(name, shape, dtype):
    """The float32 values of a tensor stored as dtype."""
    z = stream(name, math.prod(shape))
    low = np.uint64(0xFFFF)
    total = (z & low) + ((z >> np.uint64(16)) & low) + ((z >> np.uint64(32)) & low) + (z >> np.uint64(48))
    scale, offset = spread(name, shape[-1])
    values = (total.astype(np.int64) - 2 * 0xFFFF).astype(np.float32) * scale + offset
    if dtype == "bfloat16":
        values = (round_bf16(values).astype(np.uint32) << np.uint32(16)).view(np.float32)
    elif dtype == "float16":
        values = values.astype(np.float16).astype(np.float32)
    return values.reshape(shape)


def stored(name, shape, config):
    """A parameter of the model out of tensors as checkpoints have them: those of experts are apart there."""
    mixtral = config["model_type"] == "mixtral"
    gate, up, down = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
    if mixtral:
        name = name.replace(".mlp.", ".block_sparse_moe.")
    trunk, _, kind = name.rpartition(".experts.")
    if not trunk:
        return tensor(name, shape, config["dtype"])
    one = lambda i, part, rows: tensor(f"{trunk}.experts.{i}.{part}.weight", (rows, shape[2]), config["dtype"])
    if kind == "down_proj":
        return np.stack([one(i, down, shape[1]) for i in range(shape[0])])
    half = shape[1] // 2
    return np.stack([np.concatenate([one(i, gate, half), one(i, up, half)]) for i in range(shape[0])])


def prompt(length, vocab):
    return (stream("prompt", length) % np.uint64(vocab)).astype(np.int64)


def build(directory, config):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(
        AutoConfig.from_pretrained(directory), dtype=torch.float32, attn_implementation="eager"
    )
    state = {}
    for name, parameter in model.state_dict().items():
        source = "model.embed_tokens.weight" if name == "lm_head.weight" and config["tie_word_embeddings"] else name
        state[name] = torch.from_numpy(stored(source, tuple(parameter.shape), config).copy())
    model.load_state_dict(state, strict=True)
    return model.eval()


def logprobs(model, tokens):
    import torch

    with torch.no_grad():
        logits = model(torch.from_numpy(tokens)[None], use_cache=False).logits[0]
    return torch.log_softmax(logits.double(), dim=-1)


def summary(exact, half, tokens, lengths, **versions):
    """What golden.json holds of logprobs of all positions, and of those in bfloat16."""
    import torch
    import transformers

    spoken = [exact[i, tokens[i + 1]].item() for i in range(min(PROMPT_SCORES, len(tokens) - 1))]
    exact, half = (rows[[n - 1 for n in lengths]] for rows in (exact, half))
    top = exact.topk(5, dim=-1)
    off = (half.gather(-1, top.indices) - top.values).abs()
    return {
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        **versions,
        "bf16_worst": round(off.max().item(), 6),
        "bf16_mean": round(off.mean().item(), 6),
        "prompt": [round(v, 6) for v in spoken],
        "positions": [
            {
                "length": n,
                "ids": top.indices[i].tolist(),
                "logprobs": [round(v, 6) for v in top.values[i].tolist()],
            }
            for i, n in enumerate(lengths)
        ],
    }


def golden(directory):
    import torch

    config = json.loads((directory / "config.json").read_text())
    lengths = [n for n in LENGTHS if n <= config["golden_length"]]
    tokens = prompt(lengths[-1], config["vocab_size"])
    model = build(directory, config)
    exact = logprobs(model, tokens)
    if not config.get("attn_logit_softcapping"):
        model.set_attn_implementation("sdpa")  # which knows no caps
    return summary(exact, logprobs(model.to(torch.bfloat16), tokens), tokens, lengths)


def save(file, result):
    lines = [f'  "{k}": {json.dumps(v)},' for k, v in result.items() if k != "positions"]
    rows = ",\n".join("    " + json.dumps(p) for p in result["positions"])
    file.write_text("{\n" + "\n".join(lines) + '\n  "positions": [\n' + rows + "\n  ]\n}\n")


def write(directory):
    result = golden(directory)
    save(directory / "golden.json", result)
    print(f"{directory.name}: bf16 worst {result['bf16_worst']}, mean {result['bf16_mean']}")


def is_quantized(directory):
    return "quantization_config" in json.loads((directory / "config.json").read_text())


def bits():
    for name, dtype, shape, at in [
        ("model.embed_tokens.weight", "bfloat16", (10, 7), 69),
        ("model.norm.weight", "float32", (96,), 95),
        ("model.layers.0.self_attn.q_proj.bias", "float16", (96,), 1),
        ("model.layers.0.self_attn.q_proj.weight", "float32", (96, 33), 1000),
    ]:
        value = tensor(name, shape, dtype).reshape(-1)[at : at + 1]
        stored = {"bfloat16": round_bf16(value), "float16": value.astype(np.float16).view(np.uint16)}
        print(name, dtype, at, hex(stored.get(dtype, value.view(np.uint32))[0]))


def main():
    if "--bits" in sys.argv:
        return bits()
    names = sys.argv[1:] or sorted(p.parent.name for p in ROOT.glob("*/config.json") if not is_quantized(p.parent))
    for name in names:
        write(ROOT / name)


if __name__ == "__main__":
    main()
