#!/usr/bin/env python3
"""transformers and plain PyTorch, both with SDPA, on the weights and prompts of bench/gpu's part prompts:
their time beside this engine's, and whether they agree on the likeliest tokens.

    python3 tools/peers/cuda_torch.py RESULTS      on the GPU; RESULTS is what bench/gpu -results wrote
    python3 tools/peers/cuda_torch.py --products RESULTS  PyTorch's matrix products at the model's shapes instead
    python3 tools/peers/cuda_torch.py --check RESULTS     the comparison on the CPU, for small shapes; fails when
                                                    this engine is further off than bfloat16
    python3 tools/peers/cuda_torch.py --self-test         on the CPU, at a small shape, without RESULTS

Weights are hashes of a seed, a name and an index, made on the device as tools/golden/golden.py makes them.
Prints a table row by row, or why there is none.
"""

import argparse
import json
import math
import pathlib
import statistics
import sys
import time

EPS, THETA = 1e-5, 500000.0
SMALL = {"name": "small", "qwen2": False, "weights": "bf16", "vocab": 97, "hidden": 64, "inter": 96, "layers": 2, "heads": 4, "kv_heads": 2, "dim": 16}


def signed(n):
    """An unsigned 64-bit constant as PyTorch takes it."""
    return n - (1 << 64) if n >> 63 else n


def random_tensor(torch, golden, name, shape, device):
    """golden.tensor's bfloat16 values, made on the device."""
    import numpy as np

    def shifted(z, bits):  # a logical shift, where >> keeps the sign
        return (z >> bits) & ((1 << (64 - bits)) - 1)

    with np.errstate(over="ignore"):
        key = int(golden.splitmix(np.array([golden.SEED ^ golden.fnv1a(name)], dtype=np.uint64))[0])
    scale, offset = (float(v) for v in golden.spread(name, shape[-1]))
    out = torch.empty(math.prod(shape), dtype=torch.bfloat16, device=device)
    for start in range(0, out.numel(), 1 << 26):
        z = torch.arange(start, min(out.numel(), start + (1 << 26)), dtype=torch.int64, device=device)
        z = z * signed(golden.STEP) + signed(key)
        z = (z ^ shifted(z, 30)) * signed(0xBF58476D1CE4E5B9)
        z = (z ^ shifted(z, 27)) * signed(0x94D049BB133111EB)
        z ^= shifted(z, 31)
        total = (z & 0xFFFF) + ((z >> 16) & 0xFFFF) + ((z >> 32) & 0xFFFF) + shifted(z, 48) - 131070
        out[start : start + z.numel()] = (total.float() * scale + offset).bfloat16()
    return out.view(shape)


def weights(torch, golden, s, device):
    """A Llama model's tensors by the names of its checkpoints."""
    q, kv = s["heads"] * s["dim"], s["kv_heads"] * s["dim"]
    shapes = {"model.embed_tokens.weight": (s["vocab"], s["hidden"]), "model.norm.weight": (s["hidden"],), "lm_head.weight": (s["vocab"], s["hidden"])}
    for i in range(s["layers"]):
        layer = f"model.layers.{i}."
        shapes |= {
            layer + "input_layernorm.weight": (s["hidden"],),
            layer + "self_attn.q_proj.weight": (q, s["hidden"]),
            layer + "self_attn.k_proj.weight": (kv, s["hidden"]),
            layer + "self_attn.v_proj.weight": (kv, s["hidden"]),
            layer + "self_attn.o_proj.weight": (s["hidden"], q),
            layer + "post_attention_layernorm.weight": (s["hidden"],),
            layer + "mlp.gate_proj.weight": (s["inter"], s["hidden"]),
            layer + "mlp.up_proj.weight": (s["inter"], s["hidden"]),
            layer + "mlp.down_proj.weight": (s["hidden"], s["inter"]),
        }
    return {name: random_tensor(torch, golden, name, shape, device) for name, shape in shapes.items()}


class Plain:
    """The forward pass of one prompt as plain code, in the given type."""

    def __init__(self, torch, s, state, dtype):
        self.torch, self.s, self.state, self.dtype = torch, s, state, dtype
        self.name = f"plain torch, {str(dtype).removeprefix('torch.')}"

    def weight(self, name):
        return self.state[name].to(self.dtype)

    def norm(self, x, name):
        return self.torch.nn.functional.rms_norm(x, (x.shape[-1],), self.weight(name), EPS)

    def rotate(self, x, cos, sin):
        low, high = x.chunk(2, dim=-1)
        return (x * cos + self.torch.cat((-high, low), dim=-1) * sin).to(self.dtype)

    def layer(self, x, name, cos, sin):
        torch, s = self.torch, self.s
        linear, n = torch.nn.functional.linear, x.shape[0]
        h = self.norm(x, name + "input_layernorm.weight")
        q, k, v = (linear(h, self.weight(f"{name}self_attn.{p}_proj.weight")).view(1, n, -1, s["dim"]).transpose(1, 2) for p in "qkv")
        q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + linear(o.transpose(1, 2).reshape(n, -1), self.weight(name + "self_attn.o_proj.weight"))
        h = self.norm(x, name + "post_attention_layernorm.weight")
        gate = torch.nn.functional.silu(linear(h, self.weight(name + "mlp.gate_proj.weight")))
        return x + linear(gate * linear(h, self.weight(name + "mlp.up_proj.weight")), self.weight(name + "mlp.down_proj.weight"))

    def __call__(self, tokens):
        """The last position's logits."""
        torch, s = self.torch, self.s
        x = torch.nn.functional.embedding(tokens, self.state["model.embed_tokens.weight"]).to(self.dtype)
        frequency = THETA ** (-torch.arange(0, s["dim"], 2, device=tokens.device).float() / s["dim"])
        angle = torch.outer(torch.arange(len(tokens), device=tokens.device).float(), frequency)
        angle = torch.cat((angle, angle), dim=-1)
        cos, sin = angle.cos().to(self.dtype), angle.sin().to(self.dtype)
        for i in range(s["layers"]):
            x = self.layer(x, f"model.layers.{i}.", cos, sin)
        return torch.nn.functional.linear(self.norm(x[-1:], "model.norm.weight"), self.weight("lm_head.weight"))[0]


def transformers_model(torch, s, state, device):
    """transformers' own model over the same tensors, or None with a line that says why."""
    try:
        import transformers

        config = transformers.LlamaConfig(
            vocab_size=s["vocab"], hidden_size=s["hidden"], intermediate_size=s["inter"], num_hidden_layers=s["layers"],
            num_attention_heads=s["heads"], num_key_value_heads=s["kv_heads"], head_dim=s["dim"],
            max_position_embeddings=1 << 18, rms_norm_eps=EPS, rope_theta=THETA, tie_word_embeddings=False,
        )
        if hasattr(config, "rope_parameters"):  # transformers 5
            config.rope_parameters = {"rope_type": "default", "rope_theta": THETA}
        with torch.device("meta"):
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa")
        model.load_state_dict(state, strict=True, assign=True)
        with torch.device(device):  # its one buffer is in no checkpoint
            model.model.rotary_emb = type(model.model.rotary_emb)(config=config)
    except Exception as error:  # a peer that is missing or has changed is not this engine's failure
        print(f"\ntransformers: no figures ({type(error).__name__}: {error})")
        return None
    model.eval()

    def run(tokens):
        return model(tokens[None], use_cache=False, logits_to_keep=1).logits[0, -1]

    run.name = f"transformers {transformers.__version__}"
    return run


def prompt(torch, n, vocab, device):
    """bench/gpu's prompt of n tokens."""
    return (n + torch.arange(n, device=device) * 7919) % vocab


def seconds(torch, contestant, tokens, runs):
    def once():
        start = time.perf_counter()
        contestant(tokens)
        if tokens.is_cuda:
            torch.cuda.synchronize()
        return time.perf_counter() - start

    first = once()
    if first > 4:  # seconds: long enough that a warm-up would change little
        return first
    return statistics.median(once() for _ in range(runs))


def compare(torch, results, exact, contestants):
    """Prints how far each is from float32 at this engine's likeliest tokens; returns the distances."""
    print("\nLogprobs of this engine's five likeliest next tokens, off from float32 (worst, mean):\n")
    names = ["this engine"] + [c.name for c in contestants]
    print("| tokens | " + " | ".join(names) + " |\n|---" + "|---" * len(names) + "|")
    rows = []
    for p in results["prompts"]:
        if not p["top"]:
            continue
        tokens = prompt(torch, p["tokens"], results["model"]["vocab"], exact.state["lm_head.weight"].device)

        def logprobs(run):
            return torch.log_softmax(run(tokens).double(), dim=-1)[p["top"]].cpu()

        want = logprobs(exact)
        found = [torch.tensor(p["logprobs"], dtype=torch.float64)] + [logprobs(c) for c in contestants]
        off = [(f - want).abs() for f in found]
        rows.append(off)
        print(f"| {p['tokens']} | " + " | ".join(f"{d.max():.4f}, {d.mean():.4f}" for d in off) + " |", flush=True)
    return rows


def race(torch, results, contestants, device):
    print("\n| tokens | this engine, tokens/s | " + " | ".join(c.name for c in contestants) + " |\n|---|---" + "|---" * len(contestants) + "|")
    for p in results["prompts"]:
        n = p["tokens"]
        tokens = prompt(torch, n, results["model"]["vocab"], device)
        cells = []
        for c in contestants:
            try:
                took = seconds(torch, c, tokens, 3)
                cells.append(f"{n / took:.4g} (this engine {took / p['seconds']:.2f} times that)")
            except RuntimeError as error:  # out of memory, mostly
                cells.append(str(error).splitlines()[0][:80])
        print(f"| {n} | {n / p['seconds']:.4g} | " + " | ".join(cells) + " |", flush=True)


def product_seconds(torch, multiply, copies):
    """The median time of a product that takes turns over so many copies of its weights."""
    for i in range(3):
        multiply(i % copies)
    times = []
    for _ in range(9):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for i in range(8):
            multiply(i % copies)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 8e3)
    return statistics.median(times)


def product_rate(torch, rows, out, inner, weights):
    """TFLOP/s of x [rows, inner] W [out, inner]^T: of bfloat16 into it, of FP8 with a scale for each row of both, or of int8 into int32."""
    copies = max(1, (256 << 20) // (out * inner * (2 if weights == "bf16" else 1)))
    x = torch.randn(rows, inner, device="cuda", dtype=torch.bfloat16)
    w = [torch.randn(out, inner, device="cuda", dtype=torch.bfloat16) for _ in range(copies)]
    if weights == "bf16":
        took = product_seconds(torch, lambda i: torch.nn.functional.linear(x, w[i]), copies)
    elif weights == "int8":
        x, w = (x * 40).to(torch.int8), [(m * 40).to(torch.int8) for m in w]
        took = product_seconds(torch, lambda i: torch._int_mm(x, w[i].T), copies)
    else:
        x, w = x.to(torch.float8_e4m3fn), [m.to(torch.float8_e4m3fn) for m in w]
        x_scale, w_scale = (torch.rand(shape, device="cuda") for shape in ((rows, 1), (1, out)))
        took = product_seconds(torch, lambda i: torch._scaled_mm(x, w[i].T, x_scale, w_scale, out_dtype=torch.bfloat16, use_fast_accum=False), copies)
    return 2 * rows * out * inner / took / 1e12


def products(torch, s):
    """PyTorch's products beside bench/gpu's, which are bound to sums whose order no other row changes."""
    matrices = {
        "Q, K, V": ((s["heads"] + 2 * s["kv_heads"]) * s["dim"], s["hidden"]), "output": (s["hidden"], s["heads"] * s["dim"]),
        "gate, up": (2 * s["inter"], s["hidden"]), "down": (s["hidden"], s["inter"]), "8192 x 8192": (8192, 8192),
    }
    for kind, what in {"bf16": "bfloat16", "fp8": "FP8, a scale a row", "int8": "int8 into int32"}.items():
        print(f"\ntorch {torch.__version__}, {what}, TFLOP/s, weights from memory:\n")
        print("| rows | " + " | ".join(matrices) + " |\n|---" + "|---" * len(matrices) + "|")
        for rows in (150, 512, 1024, 2048, 4096, 8192):
            cells = []
            for out, inner in matrices.values():
                try:
                    cells.append(f"{product_rate(torch, rows, out, inner, kind):.4g}")
                except (RuntimeError, ValueError, AttributeError) as error:
                    cells.append(str(error).splitlines()[0][:60])
            print(f"| {rows} | " + " | ".join(cells) + " |", flush=True)


def measure(torch, golden, results, device):
    s = results["model"]
    if s["qwen2"] or s["weights"] != "bf16" or results["seed"] != golden.SEED:
        sys.exit("cuda_torch.py knows Llama's shapes in bfloat16 and tools/golden/golden.py's seed alone")
    where = torch.cuda.get_device_name() if device == "cuda" else "the CPU"
    print(f"torch {torch.__version__} (cuDNN {torch.backends.cudnn.version()}), SDPA, {s['name']}, bfloat16, on {where}", flush=True)
    with torch.inference_mode():
        state = weights(torch, golden, s, device)
        contestants = [Plain(torch, s, state, torch.bfloat16)]
        peer = transformers_model(torch, s, state, device)
        if peer:
            contestants.insert(0, peer)
        rows = compare(torch, results, Plain(torch, s, state, torch.float32), contestants)
        race(torch, results, contestants, device)
    return rows


def self_test(torch, golden):
    """The weights' bits are golden.py's, and plain code is what transformers computes."""
    for name, shape in {"model.layers.1.mlp.up_proj.weight": (40, 33), "model.norm.weight": (50,), "lm_head.weight": (7, 16)}.items():
        made = random_tensor(torch, golden, name, shape, "cpu").float().numpy()
        assert (made == golden.tensor(name, shape, "bfloat16")).all(), name
    with torch.inference_mode():
        plain = Plain(torch, SMALL, weights(torch, golden, SMALL, "cpu"), torch.float32)
        tokens = prompt(torch, 50, SMALL["vocab"], "cpu")
        top = torch.log_softmax(plain(tokens).double(), dim=-1).topk(5)
    results = {
        "model": SMALL, "seed": golden.SEED,
        "prompts": [{"tokens": 50, "seconds": 1.0, "top": top.indices.tolist(), "logprobs": top.values.tolist()}, {"tokens": 90, "seconds": 1.0, "top": None, "logprobs": None}],
    }
    ours, *others = measure(torch, golden, results, "cpu")[0]
    assert ours.max() < 1e-9 and len(others) == 2 and max(d.max() for d in others) < 0.3, (ours, others)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="?")
    parser.add_argument("--products", action="store_true", help="time matrix products instead")
    parser.add_argument("--check", action="store_true", help="on the CPU; fail when this engine is further off than bfloat16")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("Not measured: this Python has no torch.")
        return
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "golden"))
    import golden

    if args.self_test:
        self_test(torch, golden)
        return
    if not args.check and not torch.cuda.is_available():
        print("Not measured: torch sees no GPU.")
        return
    try:
        with open(args.results) as file:
            results = json.load(file)
    except (OSError, TypeError) as error:
        print(f"Not measured: no results of this engine to compare with ({error}).")
        return
    if args.products:
        products(torch, results["model"])
        return
    rows = measure(torch, golden, results, "cpu" if args.check else "cuda")
    if args.check and any(ours.max() > 2 * max(o.max() for o in others) for ours, *others in rows):
        sys.exit("this engine is further off than twice torch's own bfloat16")


if __name__ == "__main__":
    main()
