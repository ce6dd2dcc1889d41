#!/usr/bin/env python3
"""Writes adapters of LoRA with peft, and what transformers computes with them merged, on the weights of golden.py.

Below engine/model/testdata/adapters each directory NAME is an adapter as peft saves it, of the model in testdata that BASE
says, and golden.json: the five likeliest next tokens and their logprobs in float32 of the merged checkpoint, and how far transformers' own
bfloat16 run of it is from these, at the most and on average; and how far the model alone is from them.

    python3 tools/golden/golden_lora.py       (needs torch, transformers, peft, numpy, safetensors)
"""

import json
import pathlib

import numpy as np
import peft
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file

import golden

ROOT = golden.ROOT / "adapters"
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ADAPTERS = {
    "all": ("llama3", dict(r=8, lora_alpha=16, target_modules=ALL)),
    "patterns": ("llama3", dict(r=4, lora_alpha=12, use_rslora=True, target_modules=["q_proj", "v_proj", "down_proj"],
                                rank_pattern={"layers.1.self_attn.q_proj": 7, "down_proj": 3}, alpha_pattern={"layers.[02].self_attn.v_proj": 5})),
    "fused": ("phi3", dict(r=8, lora_alpha=16, target_modules=["qkv_proj", "o_proj", "gate_up_proj", "down_proj"])),
    "normed": ("gemma2", dict(r=8, lora_alpha=8, target_modules=ALL)),
}


def fill(model):
    for name, p in model.named_parameters():
        if "lora_" in name:
            bits = golden.stream(name, p.numel())
            values = (bits >> np.uint64(40)).astype(np.float64) / 2**24 * 2 - 1
            p.data = torch.tensor(values * (0.12 if "lora_B" in name else 0.2), dtype=torch.float32).reshape(p.shape).to(torch.bfloat16).float()


def main():
    for name, (base, options) in ADAPTERS.items():
        config = json.loads((golden.ROOT / base / "config.json").read_text())
        lengths = [n for n in golden.LENGTHS if n <= min(config["golden_length"], 333)]
        tokens = golden.prompt(lengths[-1], config["vocab_size"])
        model = golden.build(golden.ROOT / base, config)
        alone = golden.logprobs(model, tokens)
        adapted = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.0, **options))
        fill(adapted)
        adapted.peft_config["default"].base_model_name_or_path = base
        adapted.save_pretrained(ROOT / name)
        (ROOT / name / "README.md").unlink(missing_ok=True)
        store_bf16(ROOT / name / "adapter_model.safetensors")
        merged = adapted.merge_and_unload()
        exact = golden.logprobs(merged, tokens)
        half = golden.logprobs(merged.to(torch.bfloat16), tokens)
        rows = [n - 1 for n in lengths]
        top = exact[rows].topk(5, dim=-1)
        without = (alone[rows].gather(-1, top.indices) - top.values).abs().max().item()
        golden.save(ROOT / name / "golden.json", golden.summary(exact, half, tokens, lengths, peft=peft.__version__, base=base, without_worst=round(without, 6)))
        print(name, base, without)


def store_bf16(path):
    save_file({k: v.to(torch.bfloat16) for k, v in load_file(path).items()}, path)


if __name__ == "__main__":
    main()
