"""What the rounds gave, as rows for a file and as a table to read."""

import platform

# Qwen2.5-0.5B's matrices, [rows in, rows out], without the LM head, of which one row is computed.
LAYERS, HIDDEN = 24, 896
LINEARS = [(896, 1152), (896, 896), (896, 9728), (4864, 896)]


def flop(tokens):
    """FLOP of a pass: products, and causal attention's 4 * heads * dim for each pair of positions."""
    return 2 * LAYERS * sum(i * o for i, o in LINEARS) * tokens + 4 * HIDDEN * LAYERS * tokens * (tokens + 1) / 2


def rows(contestants, lengths, products):
    """A row a contestant, with its ratio to this engine with the same weights and its share of the products' rate."""
    found = [{"name": c.name, "weights": c.weights, "tokens_per_second": {n: n / c.median(n) for n in lengths}} for c in contestants]
    ours = {r["weights"]: r for r in found if r["name"].startswith("prefillonly")}
    for r in found:
        rate = r["tokens_per_second"]
        own = ours.get(r["weights"], r)
        if own is r and r["weights"] != "bf16":
            own = ours.get("bf16", r)
        if own is not r:
            r["against"] = own["name"]
            r["ratio"] = {n: own["tokens_per_second"][n] / rate[n] for n in lengths}
        if r["weights"] == "bf16" and products:
            measured = [n for n in lengths if n in products[0].answers]
            r["share"] = {n: flop(n) / n * rate[n] / max(p.median(n) for p in products) for n in measured}
    return found


def show(found, lengths, products):
    width = max(len(r["name"]) for r in found) + 24

    def line(label, values, form):
        print(label.ljust(width) + "".join(f"{form.format(values[n]) if n in values else '-':>10}" for n in lengths))

    line("tokens/s", {n: n for n in lengths}, "{}")
    for r in found:
        line(f"{r['name']} ({r['weights']})", r["tokens_per_second"], "{:.0f}")
    for r in found:
        if "ratio" in r:
            line(f"{r['against']} / {r['name']}", r["ratio"], "{:.2f}")
    for p in products:
        line(f"{p.name}, GFLOP/s", {n: p.median(n) / 1e9 for n in p.answers}, "{:.0f}")
    for r in found:
        if "share" in r:
            line(f"{r['name']}, share of GEMM", r["share"], "{:.0%}")


def machine():
    try:
        lines = open("/proc/cpuinfo", encoding="utf-8").read().splitlines()
    except OSError:
        return platform.processor()
    model = next((l.split(":", 1)[1].strip() for l in lines if l.startswith("model name")), platform.processor())
    flags = next((l.split(":", 1)[1].split() for l in lines if l.startswith("flags")), [])
    wide = [f for f in ("avx2", "avx512f", "avx512_bf16", "avx_vnni", "avx512_vnni", "amx_bf16", "amx_int8") if f in flags]
    return f"{model}, {' '.join(wide)}"
