#!/usr/bin/env python3
"""Writes the golden files of engine/model for checkpoints in FP8 and int8, with transformers and compressed-tensors.

Each directory below engine/model/testdata whose config.json has a quantization_config becomes a whole
checkpoint: golden.py's weights, those of the projections, and of an LM head that is not ignored, as codes with a bfloat16
scale for each row. transformers loads it and computes twice: golden.json has activations quantised as they come, as
int8 does, and FP8 on devices with arithmetic for it; weights_only.json leaves activations alone, as FP8 on other
devices and int8 weights alone do. Both are in float32, beside how far the same run in bfloat16 is off.

    python3 tools/golden/golden_quantized.py            rewrite every file (needs torch, transformers==5.5.4,
                                           compressed-tensors==0.20.0, safetensors, numpy)
    python3 tools/golden/golden_quantized.py NAME ...   only these directories
    python3 tools/golden/golden_quantized.py --checkpoint NAME DIRECTORY   only write the checkpoint
"""

import json
import pathlib
import sys
import tempfile

import compressed_tensors
import safetensors.torch
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, CompressedTensorsConfig

import golden

LARGEST = {"float": 448.0, "int": 127.5}  # what a row's largest magnitude is in scales


def quantized(values, kind):
    """Codes and a scale for each row."""
    scale = (values.abs().amax(dim=1, keepdim=True) / LARGEST[kind]).to(torch.bfloat16)
    codes = values / scale.float()
    if kind == "int":
        return codes.round().clamp(-128, 127).to(torch.int8), scale
    return codes.clamp(-LARGEST[kind], LARGEST[kind]).to(torch.float8_e4m3fn), scale


def checkpoint(name, directory, scale_type):
    """Writes testdata's model as a checkpoint with scales of this type."""
    config = json.loads((golden.ROOT / name / "config.json").read_text())
    quantization = config["quantization_config"]
    kind = quantization["config_groups"]["group_0"]["weights"]["type"]
    plain = {k: v for k, v in config.items() if k != "quantization_config"}
    with torch.device("meta"):
        skeleton = AutoModelForCausalLM.from_config(AutoConfig.for_model(**plain))
    tensors = {}
    for key, parameter in skeleton.state_dict().items():
        if key == "lm_head.weight" and config["tie_word_embeddings"]:
            continue
        coded = key.endswith("_proj.weight") or key == "lm_head.weight" and "lm_head" not in quantization["ignore"]
        values = golden.tensor(key, tuple(parameter.shape), "float32" if coded else "bfloat16")
        values = torch.from_numpy(values.copy())
        if coded:
            codes, scale = quantized(values, kind)
            tensors[key], tensors[key + "_scale"] = codes, scale.to(scale_type)
        else:
            tensors[key] = values.to(torch.bfloat16)
    directory.mkdir(exist_ok=True)
    safetensors.torch.save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    (directory / "config.json").write_text(json.dumps(config, indent=2))
    return config


def load(directory, dtype):
    model = AutoModelForCausalLM.from_pretrained(
        directory, dtype=dtype, attn_implementation="eager", quantization_config=CompressedTensorsConfig(run_compressed=False)
    ).eval()
    head = [] if "lm_head" in model.config.quantization_config.quantization_config.ignore else [model.lm_head]
    for layer in [model.model.layers[0].mlp.up_proj, *head]:
        if layer.weight.dtype != dtype or layer.weight_scale.dtype != dtype or not layer.quantization_scheme.input_activations.dynamic:
            raise SystemExit(f"as {dtype}, weights are {layer.weight.dtype}, scales {layer.weight_scale.dtype}, of {layer.quantization_scheme}")
    return model


def runs(model, tokens):
    """Logprobs with activations quantised, and without."""
    both = golden.logprobs(model, tokens)
    switched = [m for m in model.modules() if getattr(m, "quantization_scheme", None) is not None]
    if not switched:
        raise SystemExit("no module is quantised")
    for module in switched:
        module.quantization_enabled = False
    return both, golden.logprobs(model, tokens)


def write(name):
    with tempfile.TemporaryDirectory() as temporary:
        temporary = pathlib.Path(temporary)
        config = checkpoint(name, temporary / "exact", torch.float32)
        checkpoint(name, temporary / "half", torch.bfloat16)
        lengths = [n for n in golden.LENGTHS if n <= config["golden_length"]]
        tokens = golden.prompt(lengths[-1], config["vocab_size"])
        exact = runs(load(temporary / "exact", torch.float32), tokens)
        half = runs(load(temporary / "half", torch.bfloat16), tokens)
    for file, rows, rough in zip(["golden.json", "weights_only.json"], exact, half):
        result = golden.summary(rows, rough, tokens, lengths, compressed_tensors=compressed_tensors.__version__)
        golden.save(golden.ROOT / name / file, result)
        print(f"{name}/{file}: bf16 worst {result['bf16_worst']}, mean {result['bf16_mean']}")
    print(f"{name}: quantised activations change logprobs by {(exact[0] - exact[1]).abs().max().item():.3f} at the most")


def main():
    if "--checkpoint" in sys.argv:
        name, directory = sys.argv[2:]
        checkpoint(name, pathlib.Path(directory), torch.bfloat16)
        return
    names = sys.argv[1:] or [p.parent.name for p in sorted(golden.ROOT.glob("*/config.json")) if golden.is_quantized(p.parent)]
    for name in names:
        write(name)


if __name__ == "__main__":
    transformers.utils.logging.set_verbosity_error()
    main()
