"""PyTorch with SDPA at Llama-3.1-8B's shape: the forward pass of one prompt, as plain code, with random
bfloat16 weights. A peer for bench-cuda; prints a row for each length, or why there is none."""

import sys
import time

HIDDEN, INTER, LAYERS, HEADS, KV_HEADS, DIM = 4096, 14336, 32, 32, 8, 128
LENGTHS = (1 << 10, 8 << 10, 32 << 10)


def layer(torch, x, w):
    """One decoder layer without the rotation, which costs little."""
    functional = torch.nn.functional
    n = x.shape[0]
    q, k, v = (functional.rms_norm(x, (HIDDEN,)) @ w["qkv"].T).split([HIDDEN, KV_HEADS * DIM, KV_HEADS * DIM], dim=1)
    q, k, v = (t.view(1, n, -1, DIM).transpose(1, 2) for t in (q, k, v))
    o = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    x = x + o.transpose(1, 2).reshape(n, HIDDEN) @ w["o"].T
    gate, up = (functional.rms_norm(x, (HIDDEN,)) @ w["gate_up"].T).chunk(2, dim=1)
    return x + (functional.silu(gate) * up) @ w["down"].T


def main():
    try:
        import torch
    except ImportError:
        print("torch is not installed: no figures of it")
        return
    if not torch.cuda.is_available():
        print("torch sees no GPU: not measured")
        return

    def matrix(rows, columns):
        return torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16) * 0.02

    weights = [
        {
            "qkv": matrix((HEADS + 2 * KV_HEADS) * DIM, HIDDEN),
            "o": matrix(HIDDEN, HIDDEN),
            "gate_up": matrix(2 * INTER, HIDDEN),
            "down": matrix(HIDDEN, INTER),
        }
        for _ in range(LAYERS)
    ]
    print(f"\ntorch {torch.__version__} + SDPA on {torch.cuda.get_device_name()}\n")
    print("| tokens | ms | tokens/s |\n|---|---|---|")
    for n in LENGTHS:
        with torch.inference_mode():
            for _ in range(2):  # the second counts
                x = matrix(n, HIDDEN)
                torch.cuda.synchronize()
                start = time.perf_counter()
                for w in weights:
                    x = layer(torch, x, w)
                torch.cuda.synchronize()
                took = time.perf_counter() - start
        print(f"| {n} | {took * 1e3:.4g} | {n / took:.4g} |")


if __name__ == "__main__":
    sys.exit(main())
