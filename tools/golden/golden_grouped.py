#!/usr/bin/env python3
"""Writes the checkpoints and golden files of engine/model for weights that are stored in groups or blocks.

Each directory below engine/model/testdata/grouped has a config.json with a quantization_config. golden.py's weights are
rounded to codes and packed into model.safetensors, by compressed-tensors where the format is its own, and else by
the public definitions of GPTQ (GPTQModel), AWQ's gemm (AutoAWQ) and FP8 by blocks (DeepSeek-V3). Then the file is read back, its weights
are expanded (by compressed-tensors, too), and transformers computes with them in float32 and bfloat16. golden.json
has, beside what golden.py's have, a SHA-256 of the expanded weights in bfloat16, in the order of their names.

    python3 tools/golden/golden_grouped.py            rewrite every file (needs torch, transformers==5.5.4,
                                           compressed-tensors==0.20.0, safetensors, numpy)
    python3 tools/golden/golden_grouped.py NAME ...   only these directories
"""

import hashlib
import json
import sys

import numpy as np
import safetensors.torch
import torch
import transformers
from compressed_tensors.compressors import PackedQuantizationCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from transformers import AutoConfig, AutoModelForCausalLM

import golden

ROOT = golden.ROOT / "grouped"
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # which of eight outputs is at each place of a word


def groups_of(cols, size, ordered, name):
    """Each input's group: in order, or, as act-order leaves them, in turns of a hash."""
    groups = np.arange(cols) // (size if size > 0 else cols)
    return groups[np.argsort(golden.stream(name + " order", cols), kind="stable")] if ordered else groups


def rounded(values, groups, bits, symmetric, scale_type):
    """Codes of 0 to 2**bits - 1, scales and zero points [rows, groups]."""
    top, count = (1 << bits) - 1, int(groups.max()) + 1
    scales, zeros = np.zeros((len(values), count), np.float32), np.zeros((len(values), count), np.int64)
    for g in range(count):
        part = values[:, groups == g]
        if symmetric:
            scales[:, g] = np.abs(part).max(axis=1) * 2 / top
            zeros[:, g] = (top + 1) // 2
        else:
            low, high = np.minimum(part.min(axis=1), 0), np.maximum(part.max(axis=1), 0)
            scales[:, g] = (high - low) / top
            zeros[:, g] = np.clip(np.round(-low / scales[:, g]), 1, top)
    scales = torch.from_numpy(scales).to(scale_type)
    codes = np.round(values / scales.float().numpy()[:, groups]) + zeros[:, groups]
    return np.clip(codes, 0, top).astype(np.int64), scales, zeros


def pack(codes, bits, places=None):
    """Codes along the last axis in words of 32 bits."""
    n = 32 // bits
    shifts = np.arange(n) if places is None else np.argsort(places)
    words = (codes.reshape(*codes.shape[:-1], -1, n) << (shifts * bits)).sum(axis=-1)
    return torch.from_numpy(words.astype(np.uint32).view(np.int32).copy())


def unpack(words, bits, places=None):
    n = 32 // bits
    shifts = np.arange(n) if places is None else np.argsort(places)
    codes = (words.numpy().view(np.uint32)[..., None].astype(np.int64) >> (shifts * bits)) & ((1 << bits) - 1)
    return codes.reshape(*words.shape[:-1], -1)


def expanded(codes, zeros, scales, groups):
    """Codes less their zero points, times their scales, in float32."""
    return torch.from_numpy((codes - zeros[:, groups]).astype(np.float32)) * scales.float()[:, torch.from_numpy(groups)]


class GPTQ:
    def __init__(self, q):
        self.bits, self.size, self.ordered, self.symmetric = q["bits"], q["group_size"], q["desc_act"], q["sym"]
        self.less = 1 if q.get("checkpoint_format", "gptq") == "gptq" else 0
        self.biases = self.less == 1

    def write(self, name, values):
        groups = groups_of(values.shape[1], self.size, self.ordered, name)
        codes, scales, zeros = rounded(values, groups, self.bits, self.symmetric, torch.float16)
        return {
            "qweight": pack(codes, self.bits).T.contiguous(),
            "qzeros": pack(zeros.T.copy() - self.less, self.bits),
            "scales": scales.T.contiguous(),
            "g_idx": torch.from_numpy(groups.astype(np.int32)),
        }

    def read(self, t):
        codes = unpack(t["qweight"].T.contiguous(), self.bits)
        zeros = unpack(t["qzeros"], self.bits).T + self.less
        return expanded(codes, zeros, t["scales"].T, t["g_idx"].long().numpy())


class AWQ:
    def __init__(self, q):
        self.size = q["group_size"]

    def write(self, name, values):
        groups = groups_of(values.shape[1], self.size, False, name)
        codes, scales, zeros = rounded(values, groups, 4, False, torch.float16)
        return {
            "qweight": pack(codes.T.copy(), 4, AWQ_ORDER),
            "qzeros": pack(zeros.T.copy(), 4, AWQ_ORDER),
            "scales": scales.T.contiguous(),
        }

    def read(self, t):
        codes, zeros = unpack(t["qweight"], 4, AWQ_ORDER).T, unpack(t["qzeros"], 4, AWQ_ORDER).T
        return expanded(codes, zeros, t["scales"].T, groups_of(codes.shape[0 + 1], self.size, False, ""))


class FP8:
    """Blocks, with scales of this name and type."""

    def __init__(self, block, suffix, scale_type):
        self.block, self.suffix, self.scale_type = block, suffix, scale_type

    def spread(self, scales, shape):
        rows, cols = self.block
        return scales.float().repeat_interleave(rows, 0)[: shape[0]].repeat_interleave(cols, 1)[:, : shape[1]]

    def write(self, name, values):
        rows, cols = self.block
        values = torch.from_numpy(values)
        shape = -(-values.shape[0] // rows), -(-values.shape[1] // cols)
        scales = torch.zeros(shape)
        for i in range(shape[0]):
            for j in range(shape[1]):
                scales[i, j] = values[i * rows : (i + 1) * rows, j * cols : (j + 1) * cols].abs().max() / 448
        scales = scales.to(self.scale_type)
        codes = (values / self.spread(scales, values.shape)).clamp(-448, 448).to(torch.float8_e4m3fn)
        return {"weight": codes, self.suffix: scales}

    def read(self, t):
        return t["weight"].float() * self.spread(t[self.suffix], t["weight"].shape)


class Packed:
    """compressed-tensors' own, but for act-order's groups, which its newer versions have not."""

    def __init__(self, args):
        self.ordered = args["actorder"] == "group"
        self.args = QuantizationArgs(**{k: v for k, v in args.items() if k != "actorder"})
        self.scheme = QuantizationScheme(targets=["Linear"], weights=self.args)

    def write(self, name, values):
        a = self.args
        groups = groups_of(values.shape[1], a.group_size or -1, self.ordered, name)
        codes, scales, zeros = rounded(values, groups, a.num_bits, a.symmetric, torch.bfloat16)
        order = np.argsort(groups, kind="stable")  # compressed-tensors rounds inputs that are in order
        half = 1 << (a.num_bits - 1)
        state = {"weight": torch.from_numpy(values[:, order].copy()).to(torch.bfloat16), "weight_scale": scales}
        if not a.symmetric:
            state["weight_zero_point"] = torch.from_numpy((zeros - half).astype(np.int8))
        state = PackedQuantizationCompressor.compress(state, self.scheme)
        if self.ordered:
            from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32, unpack_from_int32

            sorted_codes = unpack_from_int32(state["weight_packed"], a.num_bits, values.shape)
            state["weight_packed"] = pack_to_int32(sorted_codes[:, torch.from_numpy(np.argsort(order))].contiguous(), a.num_bits)
            state["weight_g_idx"] = torch.from_numpy(groups.astype(np.int32))
        return {k: v.to(torch.int64) if k == "weight_shape" else v for k, v in state.items()}

    def read(self, t):
        if "weight_g_idx" not in t:
            return PackedQuantizationCompressor.decompress(t, self.scheme)["weight"].float()
        from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32, unpack_from_int32

        order = torch.argsort(t["weight_g_idx"].long(), stable=True)
        codes = unpack_from_int32(t["weight_packed"], self.args.num_bits, t["weight_shape"])[:, order].contiguous()
        state = {k: v for k, v in t.items() if k != "weight_g_idx"} | {"weight_packed": pack_to_int32(codes, self.args.num_bits)}
        values = PackedQuantizationCompressor.decompress(state, self.scheme)["weight"].float()
        return values[:, torch.argsort(order)]


def method(q):
    if q["quant_method"] == "gptq":
        return GPTQ(q)
    if q["quant_method"] == "awq":
        return AWQ(q)
    if q["quant_method"] == "fp8":
        return FP8(q["weight_block_size"], "weight_scale_inv", torch.float32)
    args = q["config_groups"]["group_0"]["weights"]
    if args["type"] == "float":
        return FP8(args["block_structure"], "weight_scale", torch.bfloat16)
    return Packed(args)


def checkpoint(directory, config):
    """Writes model.safetensors."""
    how, q = method(config["quantization_config"]), config["quantization_config"]
    plain = {k: v for k, v in config.items() if k != "quantization_config"}
    with torch.device("meta"):
        skeleton = AutoModelForCausalLM.from_config(AutoConfig.for_model(**plain))
    tensors = {}
    for key, parameter in skeleton.state_dict().items():
        if key == "lm_head.weight" and config["tie_word_embeddings"]:
            continue
        values = golden.tensor(key, tuple(parameter.shape), "float32").copy()
        module = key.removesuffix(".weight")
        if module.endswith("_proj") and key.endswith(".weight") or module == "lm_head" and q.get("lm_head"):
            for suffix, t in how.write(key, values).items():
                tensors[f"{module}.{suffix}"] = t
            if getattr(how, "biases", False):
                tensors.setdefault(module + ".bias", torch.zeros(len(values), dtype=torch.float16))
        else:
            tensors[key] = torch.from_numpy(values).to(torch.bfloat16)
    safetensors.torch.save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def load(directory, config):
    """transformers' model of the file's weights, and a hash of those that are expanded."""
    how = method(config["quantization_config"])
    tensors = safetensors.torch.load_file(directory / "model.safetensors")
    plain = {k: v for k, v in config.items() if k != "quantization_config"}
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**plain), dtype=torch.float32, attn_implementation="eager")
    state, digest = {}, hashlib.sha256()
    for key in sorted(model.state_dict()):
        module, end = key.rsplit(".", 1)
        own = {k.removeprefix(module + "."): v for k, v in tensors.items() if k.startswith(module + ".")}
        if key == "lm_head.weight" and config["tie_word_embeddings"]:
            state[key] = tensors["model.embed_tokens.weight"].float()
        elif end == "weight" and (key not in tensors or own["weight"].dtype == torch.float8_e4m3fn):
            state[key] = how.read(own)
            digest.update(state[key].to(torch.bfloat16).view(torch.int16).numpy().tobytes())
        else:
            state[key] = tensors[key].float()
    model.load_state_dict(state, strict=True)
    return model.eval(), digest.hexdigest()


def write(directory):
    config = json.loads((directory / "config.json").read_text())
    checkpoint(directory, config)
    lengths = [n for n in golden.LENGTHS if n <= config["golden_length"]]
    tokens = golden.prompt(lengths[-1], config["vocab_size"])
    model, digest = load(directory, config)
    exact = golden.logprobs(model, tokens)
    half = golden.logprobs(model.to(torch.bfloat16), tokens)
    result = golden.summary(exact, half, tokens, lengths, expanded=digest)
    golden.save(directory / "golden.json", result)
    print(f"{directory.name}: bf16 worst {result['bf16_worst']}, mean {result['bf16_mean']}")


def main():
    for name in sys.argv[1:] or [p.parent.name for p in sorted(ROOT.glob("*/config.json"))]:
        write(ROOT / name)


if __name__ == "__main__":
    transformers.utils.logging.set_verbosity_error()
    main()
