"""Times prompts of a GGUF file through HTTP beside llama.cpp's own server of the same file, by turns: tokens a second of the wall, the first token of the
answer included. No prompt is the beginning of another's.

Usage: gguf_speed.py BINARY [FILE.gguf]    needs xllamacpp (llama.cpp as a package); FILE as for gguf_parity.py; ROUNDS=N, LENGTHS=N,N by the environment
"""
import os
import random
import statistics
import sys
import time

from gguf_parity import llama_cpp, model_file
from served import ask, post, served

ROUNDS = int(os.environ.get("ROUNDS", "9"))
LENGTHS = [int(n) for n in os.environ.get("LENGTHS", "512,2048").split(",")]


def main():
    file = model_file()
    peer = llama_cpp(file, n_ctx=max(LENGTHS) + 64)
    rng = random.Random(1)
    ways = {
        "here": lambda ids: post("/v1/completions", prompt=ids, max_tokens=1, temperature=0)["usage"]["prompt_tokens"],
        "llama.cpp": lambda ids: ask(f"{peer.listening_address}/completion", prompt=ids, n_predict=1, temperature=0, cache_prompt=False)["tokens_evaluated"],
    }
    with served(sys.argv[1], file):
        for length in LENGTHS:
            rates = {name: [] for name in ways}
            for i in range(ROUNDS + 1):  # the first to warm up
                for name, run in ways.items():
                    ids = [rng.randrange(1000, 20000) for _ in range(length)]
                    start = time.perf_counter()
                    if run(ids) != length:
                        sys.exit(f"{name} has not read {length} tokens")
                    if i:
                        rates[name].append(length / (time.perf_counter() - start))
            ratio = statistics.median(a / b for a, b in zip(*rates.values()))
            print(f"{length} tokens: " + ", ".join(f"{name} {statistics.median(r):.0f} tokens/s ({min(r):.0f} to {max(r):.0f})" for name, r in rates.items()) + f"; {ratio:.2f} times, the median of {ROUNDS} turns", flush=True)


if __name__ == "__main__":
    main()
