#!/usr/bin/env python3
"""Loads what `prefillonly model quantize` writes in transformers with compressed-tensors, serves it, and compares log-probabilities.

Usage: quantized_parity.py BINARY [MODEL ...]    needs torch, transformers==5.5.4, compressed-tensors==0.20.0

A MODEL is a directory with weights in bf16; without one it is the demo model. Each becomes W8A8, the same smoothed, and W8A16, and
W8A8 and W8A16 with the LM head, too. The scores of
every prompt's tokens, as the server echoes them, are beside those of transformers in float32, which are beside those of transformers in
bfloat16, and beside those of the model that is not quantised, in float32, of which this tells what quantising costs. It fails where transformers does not read the scheme out of the checkpoint, or the server is, on average, 1.5 times as far off as transformers' bfloat16.
"""
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import torch
import transformers
from transformers import AutoModelForCausalLM, CompressedTensorsConfig

ROOT = pathlib.Path(__file__).resolve().parents[2]
HELD_OUT = ROOT / "engine/demo/testdata/held_out.jsonl"
PROMPTS = 24
WAYS = {"W8A8": [], "W8A8, smoothed": ["--calibration", str(HELD_OUT)], "W8A16": ["--scheme", "W8A16"],
        "W8A8, head too": ["--lm-head"], "W8A16, head too": ["--scheme", "W8A16", "--lm-head"]}


def ask(port, path, body=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body and json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.loads(answer.read() or b"null")


def served(binary, directory, prompts):
    """The tokens of each prompt, and the scores of all but its first."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([binary, "serve", str(directory), "--port", str(port), "--served-model-name", "m"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as server:
        try:
            for _ in range(600):
                try:
                    ask(port, "/health")
                    break
                except OSError:
                    time.sleep(0.2)
            result = []
            for text in prompts:
                tokens = ask(port, "/tokenize", {"model": "m", "prompt": text})["tokens"]
                body = {"model": "m", "prompt": tokens, "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 1}
                scores = ask(port, "/v1/completions", body)["choices"][0]["logprobs"]["token_logprobs"]
                result.append((tokens, scores[1:len(tokens)]))
            return result
        finally:
            server.terminate()


def loaded(directory, dtype, activations, head):
    model = AutoModelForCausalLM.from_pretrained(
        directory, dtype=dtype, attn_implementation="eager", quantization_config=CompressedTensorsConfig(run_compressed=False)
    ).eval()
    scheme, of_head = (getattr(m, "quantization_scheme", None) for m in (model.model.layers[0].mlp.up_proj, model.lm_head))
    if scheme is None or scheme.weights.num_bits != 8 or (scheme.input_activations is not None) != activations or of_head != (scheme if head else None):
        sys.exit(f"{directory}: transformers has the scheme {scheme}, and {of_head} of the LM head")
    return model


def scores(model, tokens):
    with torch.no_grad():
        rows = torch.log_softmax(model(torch.tensor([tokens]), use_cache=False).logits[0].double(), dim=-1)
    return [rows[i, t].item() for i, t in enumerate(tokens[1:])]


def off(a, b):
    all_off = [abs(x - y) for one, other in zip(a, b) for x, y in zip(one, other, strict=True)]
    return max(all_off), sum(all_off) / len(all_off)


def main():
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    binary, models = sys.argv[1], sys.argv[2:] or [str(ROOT / "engine/demo/files")]
    prompts = [json.loads(line)["prompt"] for line in HELD_OUT.read_text().splitlines()[:PROMPTS]]
    wrong = []
    for model in models:
        plain = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation="eager").eval()
        for way, arguments in WAYS.items():
            with tempfile.TemporaryDirectory() as temporary:
                directory = pathlib.Path(temporary) / "int8"
                subprocess.run([binary, "model", "quantize", model, "--out", str(directory), *arguments], check=True, stdout=subprocess.DEVNULL)
                ours = served(binary, directory, prompts)
                exact, half = (
                    [scores(m, tokens) for tokens, _ in ours]
                    for m in (loaded(directory, dtype, "W8A16" not in way, "head" in way) for dtype in (torch.float32, torch.bfloat16))
                )
            (worst, mean), (half_worst, half_mean) = off([s for _, s in ours], exact), off(half, exact)
            cost, cost_mean = off(exact, [scores(plain, tokens) for tokens, _ in ours])
            print(f"{model} {way}: {sum(len(s) for _, s in ours)} scores, worst {worst:.4f}, mean {mean:.4f}; transformers in bfloat16 {half_worst:.4f}, {half_mean:.4f}; "
                  f"quantising costs {cost:.4f}, {cost_mean:.4f}", flush=True)
            if mean > 1.5 * half_mean:
                wrong.append(f"{model} {way}")
    if wrong:
        sys.exit(f"too far: {wrong}")


if __name__ == "__main__":
    main()
