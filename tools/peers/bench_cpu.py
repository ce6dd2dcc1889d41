#!/usr/bin/env python3
"""Measure this engine and its peers side by side on this machine's CPU.

Every contestant is a child process with the model loaded. One line `N` on its standard input runs
one forward pass over N random tokens, with the next token's logits as the result; it answers with
the seconds that took. Rounds are interleaved, so that a busy neighbour slows all of them alike, and
each figure is the median of its rounds. The model has Qwen2.5-0.5B's shape and random bf16 weights;
nothing is fetched but the Python packages.

  bench_cpu.py --engine build/bench-cpu --lean

The engine is the program in bench/cpu. oneDNN's own products of the same matrices, by the library of
the distribution and by torch's, are timed in the same rounds. --lean also prints the most memory that
a pass over 32,768 tokens takes above the weights. With --json the figures are written to a file too.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time
import venv

REQUIREMENTS = ["torch==2.15.0", "transformers==5.5.4", "openvino==2026.4.1", "optimum-intel==2.2.0", "numpy==2.4.6"]
SHAPE = dict(
    hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2,
    vocab_size=151936, max_position_embeddings=32768, rope_theta=1e6, tie_word_embeddings=True,
)
# Matrices of one layer as (rows in, rows out): Q, K and V together, output, gate and up together, down.
LINEARS = [(896, 1152), (896, 896), (896, 9728), (4864, 896)]
LINEAR_FLOP = 2 * SHAPE["num_hidden_layers"] * sum(i * o for i, o in LINEARS)  # per token
PEERS = ["transformers", "openvino", "openvino-last"]


def attention_flop(tokens):
    """FLOP of causal attention over a prompt: 4 * heads * dim for each pair of positions."""
    return 4 * SHAPE["hidden_size"] * SHAPE["num_hidden_layers"] * tokens * (tokens + 1) / 2


# ---- workers: run inside the virtual environment, one process each ----


def transformers_pass(model_dir, threads):
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(threads)
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.bfloat16, attn_implementation="sdpa").eval()

    def run(ids):
        with torch.inference_mode():
            model(torch.tensor([ids]), use_cache=False, logits_to_keep=1)

    return run


def openvino_pass(model_dir, threads, last_only):
    import numpy as np
    import openvino as ov

    core = ov.Core()
    model = core.read_model(os.path.join(openvino_dir(model_dir), "openvino_model.xml"))
    if last_only:
        keep_last_position(model)
    config = {"INFERENCE_PRECISION_HINT": "bf16", "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads}
    request = core.compile_model(model, "CPU", config).create_infer_request()
    names = {name for port in model.inputs for name in port.get_names()}

    def run(ids):
        request.reset_state()
        inputs = {
            "input_ids": np.array([ids], dtype=np.int64),
            "attention_mask": np.ones((1, len(ids)), dtype=np.int64),
            "position_ids": np.arange(len(ids), dtype=np.int64)[None],
            "beam_idx": np.zeros(1, dtype=np.int32),
        }
        request.infer({k: v for k, v in inputs.items() if k in names}, share_inputs=True, share_outputs=True)

    return run


def keep_last_position(model):
    """Cut the LM head's input down to the last position, as OpenVINO GenAI does for generation."""
    from openvino import opset13 as ops

    node = model.get_results()[0].input_value(0).get_node()
    while node.get_type_name() != "MatMul":
        node = node.input_value(0).get_node()
    hidden = node.input_value(0)
    start, stop, step, axis = (ops.constant([v], dtype="int64") for v in (-1, 2**62, 1, 1))
    node.input(0).replace_source_output(ops.slice(hidden, start, stop, step, axis).output(0))
    model.validate_nodes_and_infer_types()


def openvino_dir(model_dir):
    return model_dir + "-openvino"


def make_model(model_dir):
    """Write the checkpoint with random weights, and its OpenVINO export, unless they are there."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    if not os.path.exists(os.path.join(model_dir, "config.json")):
        torch.manual_seed(0)
        Qwen2ForCausalLM(Qwen2Config(**SHAPE)).to(torch.bfloat16).save_pretrained(model_dir)
    if not os.path.exists(os.path.join(openvino_dir(model_dir), "openvino_model.xml")):
        from optimum.intel import OVModelForCausalLM

        exported = OVModelForCausalLM.from_pretrained(model_dir, export=True, stateful=True, compile=False)
        exported.save_pretrained(openvino_dir(model_dir))


def gemm_rate(threads, rows):
    """FLOP/s of torch's bf16 linear layers (oneDNN) on a layer's matrices, the median of nine sweeps."""
    import torch

    torch.set_num_threads(threads)
    layers = [(torch.nn.Linear(i, o, bias=False).bfloat16(), torch.randn(rows, i).bfloat16()) for i, o in LINEARS]
    seconds = []
    with torch.inference_mode():
        for _ in range(10):
            start = time.perf_counter()
            for layer, x in layers:
                layer(x)
            seconds.append(time.perf_counter() - start)
    return 2 * rows * sum(i * o for i, o in LINEARS) / statistics.median(seconds[1:])


def worker(args):
    import random

    if args.worker == "make-model":
        return make_model(args.model)
    if args.worker == "transformers":
        run = transformers_pass(args.model, args.threads)
    elif args.worker.startswith("openvino"):
        run = openvino_pass(args.model, args.threads, args.worker == "openvino-last")
    else:
        run = None  # torch-gemm
    print("ready", flush=True)
    rng = random.Random(1)
    for line in sys.stdin:
        tokens = int(line)
        if run is None:
            print(gemm_rate(args.threads, tokens), flush=True)
            continue
        ids = [rng.randrange(SHAPE["vocab_size"]) for _ in range(tokens)]
        start = time.perf_counter()
        run(ids)
        print(time.perf_counter() - start, flush=True)


# ---- the bench itself ----


class Contestant:
    """A child process that answers each line it is sent with a number."""

    def __init__(self, name, command, log):
        self.name = name
        self.answers = {}
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        if not self.child.stdout.readline().startswith("ready"):
            sys.exit(f"bench_cpu: {name} did not start; its messages are in {log.name}")

    def ask(self, line):
        self.child.stdin.write(f"{line}\n")
        self.child.stdin.flush()
        answer = self.child.stdout.readline()
        if not answer:
            sys.exit(f"bench_cpu: {self.name} died at {line!r}")
        return float(answer)

    def measure(self, tokens):
        self.answers.setdefault(tokens, []).append(self.ask(tokens))

    def median(self, tokens):
        return statistics.median(self.answers[tokens])

    def stop(self):
        self.child.stdin.close()
        self.child.wait()


def ensure_python(folder):
    """The virtual environment's interpreter; the environment is made on first use."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)
    return str(python)


def machine():
    try:
        lines = open("/proc/cpuinfo", encoding="utf-8").read().splitlines()
    except OSError:
        return platform.processor()
    model = next((l.split(":", 1)[1].strip() for l in lines if l.startswith("model name")), platform.processor())
    flags = next((l.split(":", 1)[1].split() for l in lines if l.startswith("flags")), [])
    wide = [f for f in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if f in flags]
    return f"{model}, {' '.join(wide)}"


def versions(python):
    code = ("import importlib.metadata as m;"
            "print(', '.join(f'{p} {m.version(p)}' for p in ('torch','transformers','openvino','optimum-intel')))")
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def lean(command, model, log):
    """Print the peak memory of a pass over 32,768 tokens with a prefix cache of 64 MB."""
    tokens = 32768
    engine = Contestant("prefillonly", [*command, "-max-len", str(tokens), "-cache-bytes", str(64 << 20)], log)
    engine.ask(tokens)
    peak = engine.ask("memory")
    engine.stop()
    weights = sum(p.stat().st_size for p in pathlib.Path(model).glob("*.safetensors"))
    print(f"\n{tokens} tokens: peak RSS {peak / 1e6:.0f} MB, {(peak - weights) / 1e6:.0f} MB above weights of {weights / 1e6:.0f} MB")
    return {"tokens": tokens, "peak": peak, "weights": weights}


def report(contestants, lengths, gemms, rounds):
    """The table of tokens a second, and of ratios where the engine took part; returns both as rows."""
    rows = []
    for c in contestants:
        rows.append({"name": c.name, "tokens_per_second": {n: n / c.median(n) for n in lengths}})
    width = max(len(r["name"]) for r in rows) + 22
    print(f"\ntokens/s, median of {rounds} interleaved rounds")
    print("".ljust(width) + "".join(f"{n:>10}" for n in lengths))
    for r in rows:
        print(r["name"].ljust(width) + "".join(f"{r['tokens_per_second'][n]:>10.0f}" for n in lengths))
    ours = next((r for r in rows if r["name"] == "prefillonly"), None)
    for r in rows if ours else []:
        if r is ours:
            continue
        r["ratio"] = {n: ours["tokens_per_second"][n] / r["tokens_per_second"][n] for n in lengths}
        print(f"prefillonly / {r['name']}".ljust(width) + "".join(f"{r['ratio'][n]:>10.2f}" for n in lengths))
    for g in gemms:
        print(f"{g.name}, GFLOP/s".ljust(width) + "".join(f"{g.median(n) / 1e9:>10.0f}" for n in lengths))
    best = {n: max(g.median(n) for g in gemms) for n in lengths}
    for r in rows:
        r["flops"] = {n: (LINEAR_FLOP * n + attention_flop(n)) / n * r["tokens_per_second"][n] for n in lengths}
        print(f"{r['name']}, share of GEMM".ljust(width) + "".join(f"{r['flops'][n] / best[n]:>10.0%}" for n in lengths))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", help="this engine's contestant, build/bench-cpu")
    parser.add_argument("--lengths", default="150,512,2048,8192")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--venv", type=pathlib.Path, default=pathlib.Path("build/peers"))
    parser.add_argument("--model", default="build/peers-model")
    parser.add_argument("--lean", action="store_true", help="also measure the memory of a long prompt")
    parser.add_argument("--json", type=pathlib.Path, help="also write the figures here")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return worker(args)

    lengths = [int(n) for n in args.lengths.split(",")]
    python = ensure_python(args.venv)
    log_path = pathlib.Path(args.model + ".log")
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with open(log_path, "w", encoding="utf-8") as log:
        command = [python, os.path.abspath(__file__), "--model", args.model, "--threads", str(args.threads), "--worker"]
        subprocess.run([*command, "make-model"], check=True, stdout=log, stderr=log)
        contestants, gemms = [], [Contestant("torch GEMM", [*command, "torch-gemm"], log)]
        if args.engine:
            engine = [args.engine, "-model", args.model, "-threads", str(args.threads)]
            contestants.append(Contestant("prefillonly", [*engine, "-max-len", str(max(lengths))], log))
            gemms.append(Contestant("oneDNN GEMM", [args.engine, "-gemm"], log))
        contestants += [Contestant(p, [*command, p], log) for p in args.peers.split(",") if p]
        for c in contestants:
            c.ask(min(lengths))  # warm-up
        for done in range(args.rounds):
            for n in lengths:
                for c in [*contestants, *gemms]:
                    c.measure(n)
            print(f"round {done + 1} of {args.rounds}", file=sys.stderr)
        for c in [*contestants, *gemms]:
            c.stop()
        memory = lean(engine, args.model, log) if args.engine and args.lean else None
    print(f"{machine()}; {args.threads} threads; {versions(python)}")
    print("Qwen2.5-0.5B's shape, random bf16 weights; one pass over a whole prompt, next token's logits")
    rows = report(contestants, lengths, gemms, args.rounds)
    if args.json:
        figures = {"machine": machine(), "threads": args.threads, "versions": versions(python), "rows": rows, "memory": memory,
                   "gemm": {g.name: {n: g.median(n) for n in lengths} for g in gemms}}
        args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
