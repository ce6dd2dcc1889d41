"""Times prompts of a GGUF file through HTTP beside llama.cpp's own server of the same file, by turns: tokens a second of the wall and, for machines that
are busy with other things, a second of the processor. No prompt is the beginning of another's, and the answer is one token.

Usage: gguf_speed.py BINARY [FILE.gguf]    needs psutil and xllamacpp (llama.cpp as a package); FILE as for gguf_parity.py; ROUNDS=N, LENGTHS=N,N and
                                           THREADS=N, which both compute with, by the environment
"""
import os
import random
import statistics
import sys
import time

import psutil
from gguf_parity import llama_cpp, model_file
from served import ask, post, served

ROUNDS = int(os.environ.get("ROUNDS", "9"))
LENGTHS = [int(n) for n in os.environ.get("LENGTHS", "512,2048").split(",")]
THREADS = int(os.environ.get("THREADS", psutil.cpu_count()))


def processor_time(processes):
    return sum(t.user + t.system for t in (p.cpu_times() for p in processes))


def main():
    file, rng = model_file(), random.Random(1)
    peer = llama_cpp(file, max(LENGTHS) + 64, THREADS)
    with served(sys.argv[1], file, "--threads", str(THREADS)) as pid:
        here = psutil.Process(pid)
        ways = {
            "here": (lambda ids: post("/v1/completions", prompt=ids, max_tokens=1, temperature=0)["usage"]["prompt_tokens"], [here, *here.children(recursive=True)]),
            "llama.cpp": (lambda ids: ask(f"{peer.listening_address}/completion", prompt=ids, n_predict=1, temperature=0, cache_prompt=False)["tokens_evaluated"], [psutil.Process()]),
        }
        for length in LENGTHS:
            rates = {name: [] for name in ways}
            for i in range(ROUNDS + 1):  # the first to warm up
                for name, (run, processes) in ways.items():
                    ids = [rng.randrange(1000, 20000) for _ in range(length)]
                    start, before = time.perf_counter(), processor_time(processes)
                    if run(ids) != length:
                        sys.exit(f"{name} has not read {length} tokens")
                    if i:
                        rates[name].append((length / (time.perf_counter() - start), length / (processor_time(processes) - before)))
            for at, what in enumerate(("wall", "processor")):
                one, other = ([r[at] for r in list] for list in rates.values())
                ratio = statistics.median(a / b for a, b in zip(one, other))
                print(f"{length} tokens, a second of the {what}: here {statistics.median(one):.0f}, llama.cpp {statistics.median(other):.0f}; {ratio:.2f} times in the median of {ROUNDS} turns", flush=True)


if __name__ == "__main__":
    main()
