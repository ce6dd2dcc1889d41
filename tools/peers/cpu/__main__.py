"""Measure this engine and its peers side by side on this machine's CPU, in bf16 and in int8.

Every contestant is a child process with the model loaded. One line `N` on its standard input runs one forward pass
over N random tokens, with the next token's logits as the result; it answers with the seconds that took. Rounds are
interleaved, so that a busy neighbour slows all of them alike, and each figure is the median of its rounds. The model
has random weights and the shape of a model with Qwen's vocabulary, as tools/checkpoint writes it; nothing is fetched but the Python packages.

oneDNN's own products of the same matrices, by the library of the distribution and by torch's, are timed in the same
rounds. --lean also prints the most memory that a pass over 32,768 tokens takes above the weights. With --json the
figures are written to a file too.
"""

import argparse
import json
import os
import pathlib
import sys

import table
from contestants import ENTRIES, Workshop

PRODUCTS_FROM = 150  # tokens: with fewer, weights that stay in a cache say nothing of a whole model


def times(tokens):
    """Passes of a round: short ones are repeated."""
    return max(1, min(5, 300 // tokens))


def lean(workshop):
    """The most memory that a pass over 32,768 tokens takes with a prefix cache of 64 MB."""
    tokens = 32768
    engine = workshop.prefillonly("prefillonly", workshop.model, tokens, "-cache-bytes", 64 << 20)
    engine.start()
    engine.ask(tokens)
    peak = engine.ask("memory")
    engine.stop()
    weights = sum(p.stat().st_size for p in workshop.model.glob("*.safetensors"))
    print(f"\n{tokens} tokens: peak RSS {peak / 1e6:.0f} MB, {(peak - weights) / 1e6:.0f} MB above weights of {weights / 1e6:.0f} MB")
    return {"tokens": tokens, "peak": peak, "weights": weights}


def compete(contestants, products, lengths, rounds):
    for c in [*contestants, *products]:
        c.start()
    for c in contestants:
        c.ask(min(lengths, key=lambda n: abs(n - 150)))  # warm-up
    for done in range(rounds):
        for n in lengths:
            for c in contestants:
                c.measure(n, times(n))
            for p in products if n >= PRODUCTS_FROM else []:
                p.measure(n)
        print(f"round {done + 1} of {rounds}", file=sys.stderr)
    for c in [*contestants, *products]:
        c.stop()


def arguments():
    parser = argparse.ArgumentParser(prog="bench_cpu.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", type=pathlib.Path, required=True, help="this engine's contestant, built from bench/cpu")
    parser.add_argument("--quantizer", type=pathlib.Path, required=True, help="prefillonly, which writes the int8 checkpoint")
    parser.add_argument("--model", type=pathlib.Path, required=True, help="bf16 checkpoint; those in other formats are written beside it")
    parser.add_argument("--contestants", default=",".join(ENTRIES), help="default: %(default)s")
    parser.add_argument("--lengths", default="1,8,150,512,2048,8192", help="tokens of prompts; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--products", action="store_true", help="also measure oneDNN's own products")
    parser.add_argument("--lean", action="store_true", help="also measure the memory of a long prompt")
    parser.add_argument("--json", type=pathlib.Path, help="also write the figures here")
    args = parser.parse_args()
    args.contestants = args.contestants.split(",")
    args.lengths = [int(n) for n in args.lengths.split(",")]
    unknown = [name for name in args.contestants if name not in ENTRIES]
    if unknown:
        parser.error(f"--contestants: {', '.join(unknown)}: not one of {', '.join(ENTRIES)}")
    return args


def main():
    args = arguments()
    with open(f"{args.model}.log", "w", encoding="utf-8") as log:
        workshop = Workshop(args.engine, args.quantizer, args.model, args.threads, max(args.lengths), log)
        contestants = [workshop.contestant(name) for name in args.contestants]
        products = workshop.products() if args.products else []
        versions = workshop.versions(args.contestants)
        compete(contestants, products, args.lengths, args.rounds)
        memory = lean(workshop) if args.lean else None
    print(f"{table.machine()}; {args.threads} threads; {', '.join(f'{p} {v}' for p, v in versions.items())}")
    print(f"{args.model.name}, random weights; one pass over a whole prompt, next token's logits; medians of {args.rounds} interleaved rounds\n")
    rows = table.rows(contestants, args.lengths, products)
    table.show(rows, args.lengths, products)
    if args.json:
        figures = {"machine": table.machine(), "threads": args.threads, "versions": versions, "rows": rows, "memory": memory,
                   "gemm": {p.name: {n: p.median(n) for n in p.answers} for p in products}}
        args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
