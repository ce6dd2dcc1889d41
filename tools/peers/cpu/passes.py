"""A peer as a contestant, run inside the peer's own virtual environment.

  passes.py PEER MODEL --threads N --max-len N

The model is loaded and `ready` printed. Each line `N` then runs one forward pass over N random tokens, with the
next token's logits as the result, and is answered with the seconds it took.
"""

import argparse
import os
import random
import statistics
import sys
import time

import models

VOCABULARY = 151936
BATCH = 512  # tokens of one llama_decode: llama.cpp's own choice for llama-bench
# Matrices of one layer of Qwen2.5-0.5B, [rows in, rows out]: Q, K and V together, output, gate and up together, down.
LAYER = [(896, 1152), (896, 896), (896, 9728), (4864, 896)]


def transformers(args):
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(args.threads)
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.bfloat16, attn_implementation="sdpa").eval()

    def run(ids):
        with torch.inference_mode():
            return model(torch.tensor([ids]), use_cache=False, logits_to_keep=1).logits[0, -1].float().numpy()

    return run


def openvino(args):
    import openvino as ov

    core = ov.Core()
    model = core.read_model(f"{args.model}/openvino_model.xml")
    keep_last_position(model)
    # Weights alone in int8 are multiplied in int8 where activations are quantised in groups as they come: those of 128
    # to 896 are 1.3 times as fast as those of 32 (the default), and twice as fast as whole rows.
    config = {
        "INFERENCE_PRECISION_HINT": "bf16", "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": args.threads,
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": 896,
    }
    request = core.compile_model(model, "CPU", config).create_infer_request()

    def run(ids):
        request.reset_state()
        return request.infer(models.openvino_inputs(model, ids), share_inputs=True, share_outputs=True)[0][0, -1]

    return run


def keep_last_position(model):
    """Cut the LM head's input down to the last position, as OpenVINO GenAI does for generation."""
    from openvino import opset13 as ops

    node = model.get_results()[0].input_value(0).get_node()
    while node.get_type_name() != "MatMul":
        node = node.input_value(0).get_node()
    start, stop, step, axis = (ops.constant([v], dtype="int64") for v in (-1, 2**62, 1, 1))
    node.input(0).replace_source_output(ops.slice(node.input_value(0), start, stop, step, axis).output(0))
    model.validate_nodes_and_infer_types()


def llama(args):
    import llama_cpp as lib
    import numpy as np

    lib.llama_backend_init()
    options = lib.llama_model_default_params()
    model = lib.llama_model_load_from_file(f"{args.model}/model.gguf".encode(), options)
    settings = lib.llama_context_default_params()
    settings.n_ctx = args.max_len
    settings.n_batch = settings.n_ubatch = BATCH
    settings.n_threads = settings.n_threads_batch = args.threads
    settings.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_ENABLED
    context = lib.llama_init_from_model(model, settings)
    vocabulary = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))

    def run(ids):
        lib.llama_memory_clear(lib.llama_get_memory(context), True)
        for at in range(0, len(ids), BATCH):
            part = ids[at : at + BATCH]
            tokens = (lib.llama_token * len(part))(*part)
            # A batch that does not say of which tokens logits are wanted gets those of its last.
            if lib.llama_decode(context, lib.llama_batch_get_one(tokens, len(part))):
                raise RuntimeError("llama_decode failed")
        return np.ctypeslib.as_array(lib.llama_get_logits_ith(context, -1), (vocabulary,))

    return run


def vllm(args):
    # Its threads have processors of their own, and 1 GiB of keys and values is more than the longest prompt takes.
    os.environ |= {"VLLM_CPU_OMP_THREADS_BIND": f"0-{args.threads - 1}", "VLLM_CPU_KVCACHE_SPACE": "1"}
    from vllm import LLM, SamplingParams

    # A prompt is one step of the scheduler, and none is found in the prefix cache.
    room = args.max_len + 1
    engine = LLM(args.model, dtype="bfloat16", max_model_len=room, max_num_batched_tokens=room, max_num_seqs=1, enable_prefix_caching=False)
    one = SamplingParams(max_tokens=1, temperature=0, detokenize=False)
    return lambda ids: engine.generate({"prompt_token_ids": ids}, one, use_tqdm=False)


def products(args):
    """Answers with the FLOP/s of torch's bf16 linear layers (oneDNN) on a layer's matrices, the median of nine sweeps."""
    import torch

    torch.set_num_threads(args.threads)

    def rate(rows):
        layers = [(torch.nn.Linear(i, o, bias=False).bfloat16(), torch.randn(rows, i).bfloat16()) for i, o in LAYER]
        seconds = []
        with torch.inference_mode():
            for _ in range(10):
                start = time.perf_counter()
                for layer, x in layers:
                    layer(x)
                seconds.append(time.perf_counter() - start)
        return 2 * rows * sum(i * o for i, o in LAYER) / statistics.median(seconds[1:])

    return rate


def timed(load):
    """Answers with the seconds of one pass of what is loaded."""

    def loaded(args):
        run, rng = load(args), random.Random(1)

        def seconds(tokens):
            ids = [rng.randrange(VOCABULARY) for _ in range(tokens)]
            start = time.perf_counter()
            run(ids)
            return time.perf_counter() - start

        return seconds

    return loaded


PEERS = {
    "transformers": timed(transformers),
    "openvino": timed(openvino),
    "llama.cpp": timed(llama),
    "vllm": timed(vllm),
    "torch-products": products,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=sorted(PEERS))
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--max-len", type=int, required=True)
    args = parser.parse_args()
    # Libraries print what they like: the answers have the standard output for themselves.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    answer = PEERS[args.peer](args)
    print("ready", file=answers)
    for line in sys.stdin:
        print(answer(int(line)), file=answers)


if __name__ == "__main__":
    main()
