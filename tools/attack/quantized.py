"""Attacks on quantised checkpoints: files that lie, and models of several types on one device whose processes are struck."""

import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time

from encoders import open_jobs, refused, told, words
from files import DEMO
from models import listed
from server import ROLES, Server, message

WRITTEN = {}  # the directories of the demo model in int8, by the flags of `model quantize`, each made once
ROOM = tempfile.TemporaryDirectory(prefix="attack-int8-")


def written(binary, scheme, *flags):
    """The demo model as `model quantize` writes it."""
    made = (scheme, *flags)
    if made not in WRITTEN:
        to = os.path.join(ROOM.name, "".join(made))
        subprocess.run([binary, "model", "quantize", str(DEMO), "--out", to, "--scheme", *made], check=True, capture_output=True)
        for f in DEMO.iterdir():
            if not os.path.exists(os.path.join(to, f.name)):
                shutil.copy(f, to)
        WRITTEN[made] = to
    return WRITTEN[made]


def of(binary, *flags):
    return copies(written(binary, *flags))


def copies(original):
    """What refused makes checkpoints with: a copy in which files have other contents."""
    weights = max(pathlib.Path(original).glob("*.safetensors"), key=os.path.getsize).name

    @contextlib.contextmanager
    def made(config=None, tensors=None, whole=None, tied=None):
        with tempfile.TemporaryDirectory(prefix="attack-") as directory:
            shutil.copytree(original, directory, dirs_exist_ok=True)
            path = pathlib.Path(directory, weights)
            if config or tied is not None:
                file = pathlib.Path(directory, "config.json")
                content = json.loads(file.read_text())
                if config:
                    config(content["quantization_config"])
                if tied is not None:
                    content["tie_word_embeddings"] = tied
                file.write_text(json.dumps(content))
            if tensors:
                header, body = opened(path.read_bytes())
                parts = {n: {**h, "data": body[slice(*h["data_offsets"])]} for n, h in header.items() if n != "__metadata__"}
                tensors(parts)
                path.write_bytes(closed(parts))
            if whole:
                path.write_bytes(whole(path.read_bytes()))
            yield directory

    return made


def opened(content):
    start = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:start]), content[start:]


def closed(parts):
    header, body = {}, b""
    for name, p in parts.items():
        header[name] = {"dtype": p["dtype"], "shape": p["shape"], "data_offsets": [len(body), len(body) + len(p["data"])]}
        body += p["data"]
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + body


NAME = "model.layers.1.mlp.down_proj.weight"  # a matrix of rows that are half as many as its columns
SCALES = NAME + "_scale"
BF16 = {"nan": b"\xc0\x7f", "inf": b"\x80\x7f", "-inf": b"\x80\xff", "largest": b"\x7f\x7f"}


def change(name, **fields):
    """A function that gives a tensor other fields; a callable is given what was there."""

    def changed(parts):
        parts[name].update({k: v(parts[name][k]) if callable(v) else v for k, v in fields.items()})

    return changed


def first(value):
    return lambda data: value + data[len(value) :]


def group(key, value):
    """A function that sets a key of the first group, a.b within a."""

    def changed(config):
        inner = next(iter(config["config_groups"].values()))
        *path, last = key.split(".")
        for p in path:
            inner = inner[p]
        inner[last] = value

    return changed


def wrong_scales(missing):
    """What may be wrong with the scales of both schemes, and what the error has to name."""
    return {
        "no scales": ({"tensors": lambda p: p.pop(SCALES)}, missing),
        "a scale too few": ({"tensors": change(SCALES, data=lambda d: d[:-2], shape=lambda s: [s[0] - 1, 1])}, missing),
        "scales in a row": ({"tensors": change(SCALES, shape=lambda s: s[::-1])}, missing),
        "no scale at all": ({"tensors": change(SCALES, data=b"", shape=[0, 1])}, missing),
        "scales as bytes": ({"tensors": change(SCALES, dtype="I8", data=lambda d: d[::2])}, missing),
        "scales as integers": ({"tensors": change(SCALES, dtype="I16")}, missing),
        "scales shorter than said": ({"tensors": change(SCALES, data=lambda d: d[:-2])}, missing),
        "scales of a matrix that is not quantised": ({"tensors": lambda p: p.update({"model.norm.weight_scale": p[SCALES]})}, "model.norm.weight_scale"),
    }


def wrong_config(scheme):
    """What may be wrong with quantization_config."""
    settings = {"weights.num_bits": (4, 0, -8, 10**9, "8"), "weights.type": ("uint", "float", 8, None), "weights.strategy": ("group", "block", ""),
                "weights.symmetric": (False, "yes"), "weights.group_size": (128, "x"), "weights.dynamic": (True,), "targets": (7, ["re:("], ["re:" + "(" * 10_000]),
                "format": ("marlin-24", 7, ["int-quantized"]), "output_activations": ({"num_bits": 8},)}
    if scheme == "W8A8":
        settings |= {"input_activations.dynamic": (False, "local"), "input_activations.num_bits": (4,), "input_activations.type": ("float",), "input_activations.strategy": ("tensor",)}
    cases = {f"{k} {str(v)[:20]}": ({"config": group(k, v)}, "quantization_config|config.json") for k, values in settings.items() for v in values}
    cases["no groups"] = ({"config": lambda c: c.update(config_groups={})}, "config_groups")
    cases["another method"] = ({"config": lambda c: c.update(quant_method="gptq")}, "quant_method")
    cases["all is ignored"] = ({"config": lambda c: c.update(ignore=["re:.*"])}, "quantization_config")
    cases["a KV cache scheme"] = ({"config": lambda c: c.update(kv_cache_scheme={"num_bits": 8})}, "kv_cache_scheme")
    return cases


def lying_int8(binary):
    """The demo model as `model quantize` writes it, W8A8: scales that are missing, too few or of another type, codes of another type or shape, a file cut short, and a quantization_config that lies. Wanted: an error that names the tensor, the file or the key, within 20 s and 1 GiB"""
    cases = {
        **wrong_scales("down_proj.weight_scale|safetensors"), **wrong_config("W8A8"),
        "codes as U8": ({"tensors": change(NAME, dtype="U8")}, "down_proj.weight"),
        "codes as F8": ({"tensors": change(NAME, dtype="F8_E4M3")}, "down_proj.weight"),
        "codes as BF16": ({"tensors": change(NAME, dtype="BF16", data=lambda d: d + d)}, "down_proj.weight"),
        "codes turned": ({"tensors": change(NAME, shape=lambda s: s[::-1])}, "down_proj.weight"),
        "no codes": ({"tensors": lambda p: p.pop(NAME)}, "down_proj.weight"),
        "cut in the codes": ({"whole": lambda b: b[: len(b) // 2]}, "safetensors"),
        "a byte short": ({"whole": lambda b: b[:-1]}, "safetensors"),
        "embeddings as codes": ({"tensors": change("model.embed_tokens.weight", dtype="I8", data=lambda d: d[::2])}, "embed_tokens"),
    }
    return refused(binary, of(binary, "W8A8"), cases, [])


def lying_packed(binary):
    """The same, W8A16 and packed: besides, words of another type, number or shape, and shapes that are missing, negative, huge or of another type. Wanted: the same"""

    def says(*numbers, kind="q", dtype="I64"):
        return change(NAME + "_shape", data=struct.pack(f"<{len(numbers)}{kind}", *numbers), shape=[len(numbers)], dtype=dtype)

    cases = {
        **wrong_scales("down_proj.weight_scale|safetensors"), **wrong_config("W8A16"),
        **{f"a shape of {n}": ({"tensors": says(*n)}, "down_proj.weight_shape") for n in ((512, 256), (0, 0), (-256, -512), (256, 511), (256, 1 << 62), (256,), (256, 512, 1), ())},
        "a shape of I32": ({"tensors": says(256, 512, kind="i", dtype="I32")}, "down_proj.weight_shape"),
        "a shape of floats": ({"tensors": says(256.0, 512.0, kind="d", dtype="F64")}, "down_proj.weight_shape"),
        "no shape": ({"tensors": lambda p: p.pop(NAME + "_shape")}, "down_proj.weight_shape"),
        "no words": ({"tensors": lambda p: p.pop(NAME + "_packed")}, "down_proj.weight"),
        "words of I64": ({"tensors": change(NAME + "_packed", dtype="I64", shape=lambda s: [s[0], s[1] // 2])}, "down_proj.weight_packed"),
        "words of F32": ({"tensors": change(NAME + "_packed", dtype="F32")}, "down_proj.weight_packed"),
        "words turned": ({"tensors": change(NAME + "_packed", shape=lambda s: s[::-1])}, "down_proj.weight_packed"),
        "a row of words less": ({"tensors": change(NAME + "_packed", shape=lambda s: [s[0] - 1, s[1]], data=lambda d: d[:-512])}, "down_proj.weight_packed"),
        "cut in the words": ({"whole": lambda b: b[: len(b) // 2]}, "safetensors"),
        "codes beside words": ({"tensors": lambda p: p.update({NAME: {"dtype": "I8", "shape": [256, 512], "data": bytes(256 * 512)}})}, "down_proj.weight"),
    }
    return refused(binary, of(binary, "W8A16"), cases, [])


def lying_head(binary):
    """The same with the LM head in int8, W8A8: its scales or codes missing, too few or of another type, a head that is tied, ignored, or of two groups. Wanted: the same"""
    head, scales = "lm_head.weight", "lm_head.weight_scale"

    def two_groups(config):
        floats = {"num_bits": 8, "type": "float", "symmetric": True}
        config["config_groups"]["group_0"]["targets"] = ["Linear"]
        config["config_groups"]["group_1"] = {"targets": ["lm_head"], "weights": {**floats, "strategy": "channel", "dynamic": False}, "input_activations": {**floats, "strategy": "token", "dynamic": True}}

    cases = {
        "no scales": ({"tensors": lambda p: p.pop(scales)}, scales),
        "no head": ({"tensors": lambda p: (p.pop(head), p.pop(scales))}, head),
        "a scale too few": ({"tensors": change(scales, data=lambda d: d[:-2], shape=lambda s: [s[0] - 1, 1])}, scales),
        "scales as integers": ({"tensors": change(scales, dtype="I16")}, scales),
        "codes as F8": ({"tensors": change(head, dtype="F8_E4M3")}, head),
        "codes as BF16": ({"tensors": change(head, dtype="BF16", data=lambda d: d + d)}, head),
        "a row of codes less": ({"tensors": lambda p: change(head, data=lambda d: d[: -p[head]["shape"][1]], shape=lambda s: [s[0] - 1, s[1]])(p)}, head),
        "codes turned": ({"tensors": change(head, shape=lambda s: s[::-1])}, head),
        "tied to embeddings": ({"tied": True}, "lm_head|tie_word_embeddings"),
        "ignored, and in codes": ({"config": lambda c: c["ignore"].append("lm_head")}, "lm_head"),
        "of a group of floats": ({"config": two_groups}, "quantization_config|lm_head"),
    }
    return refused(binary, of(binary, "W8A8", "--lm-head"), cases, [])


GROUP = 64  # inputs that share a scale


def grouped():
    """The demo model as GPTQ would store it in four bits, with codes that mean nothing."""
    to = os.path.join(ROOM.name, "gptq")
    if os.path.exists(to):
        return to
    shutil.copytree(DEMO, to)
    path, file, rng, parts = pathlib.Path(to, "model.safetensors"), pathlib.Path(to, "config.json"), random.Random(5), {}
    header, body = opened(path.read_bytes())
    for name, h in header.items():
        if not name.endswith("_proj.weight"):
            if name != "__metadata__":
                parts[name] = {**h, "data": body[slice(*h["data_offsets"])]}
            continue
        (rows, cols), module = h["shape"], name.removesuffix("weight")
        parts[module + "qweight"] = {"dtype": "I32", "shape": [cols // 8, rows], "data": rng.randbytes(cols * rows // 2)}
        parts[module + "qzeros"] = {"dtype": "I32", "shape": [cols // GROUP, rows // 8], "data": b"\x77" * (cols // GROUP * rows // 2)}
        parts[module + "scales"] = {"dtype": "F16", "shape": [cols // GROUP, rows], "data": b"\x00\x1c" * (cols // GROUP * rows)}
        parts[module + "g_idx"] = {"dtype": "I32", "shape": [cols], "data": struct.pack(f"<{cols}i", *(j // GROUP for j in range(cols)))}
    path.write_bytes(closed(parts))
    config = {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": True, "sym": True}
    file.write_text(json.dumps({**json.loads(file.read_text()), "quantization_config": config}))
    return to


def lying_groups(binary):
    """The demo model in GPTQ's four bits: words, scales, zero points and groups that are missing, of another type, width or number, groups that do not exist, scales that are not numbers, and a quantization_config that lies. Wanted: the same, or as weights are loaded"""
    layer = NAME.removesuffix("weight")
    words_, zeros, scales, groups = (layer + n for n in ("qweight", "qzeros", "scales", "g_idx"))
    keys = {"bits": (0, 2, 3, 5, 8, -4, 10**9, "4"), "group_size": (0, -1, -2, 1, 3, 128, 2**20, 2**40, "64"), "quant_method": ("awq", "fp8", "compressed-tensors", "marlin", 7),
            "checkpoint_format": ("marlin", "exllama", 7), "dynamic": ({"+:.*": {"bits": 8}},), "pack_dtype": ("int16",), "is_marlin_format": (True,), "weight_block_size": ([128, 128],)}
    cases = {f"{k} {str(v)[:20]}": ({"config": lambda c, k=k, v=v: c.update({k: v})}, "quantization_config|config.json") for k, values in keys.items() for v in values}
    for name in (words_, zeros, scales, groups):
        cases[f"no {name[len(layer):]}"] = ({"tensors": lambda p, name=name: p.pop(name)}, NAME if name == words_ else name)
        cases[f"{name[len(layer):]} of another type"] = ({"tensors": change(name, dtype="I16" if name == scales else "F32")}, name)
        cases[f"{name[len(layer):]} shorter than said"] = ({"tensors": change(name, data=lambda d: d[:-2])}, name + "|safetensors")
    for name in (words_, zeros, scales):
        cases[f"{name[len(layer):]} turned"] = ({"tensors": change(name, shape=lambda s: s[::-1])}, name)
        cases[f"{name[len(layer):]} of none"] = ({"tensors": change(name, shape=[0, 8], data=b"")}, name)
        cases[f"half of {name[len(layer):]}"] = ({"tensors": change(name, shape=lambda s: [s[0] // 2, s[1]], data=lambda d: d[: len(d) // 2])}, name)
    cases["biases that the model has not"] = ({"tensors": lambda p: p.update({layer + "bias": {"dtype": "F16", "shape": [p[scales]["shape"][1]], "data": b"\x00\x3c" * p[scales]["shape"][1]}})}, layer + "bias")
    held, outcome = refused(binary, copies(grouped()), cases, [])
    fell, tried = [], 0
    for what, changed, said in (("a group beyond", change(groups, data=first(struct.pack("<i", 8))), "element 0 is 8"), ("a group below", change(groups, data=first(struct.pack("<i", -1))), "element 0 is -1"),
                                ("the largest group", change(groups, data=first(struct.pack("<i", 2**31 - 1))), "element 0 is 2147483647"), ("a scale of NaN", change(scales, data=first(b"\x00\x7e")), "is NaN")):
        with copies(grouped())(tensors=changed) as bad, beside(binary, bad) as server:
            tried += 1
            found = [server.complete("a b c", model=m) for m in ("bad", "good")]
            if [s for s, _ in found] != [503, 200] or layer not in message(found[0][1]) or said not in message(found[0][1]):
                fell.append(f"{what}: {[s for s, _ in found]} {message(found[0][1])}")
    return held and not fell, "; ".join([outcome, *fell, f"{tried - len(fell)} named as they were loaded, the other model served"])


@contextlib.contextmanager
def beside(binary, bad):
    """A server of the demo model and of a bad one, good and bad, once the good one is served."""
    with listed("models:\n" + "".join(f"- {{name: {n}, path: {p}, keep: always}}\n" for n, p in (("good", DEMO), ("bad", bad)))) as path, Server(binary, "--config", str(path)) as server:
        server.wait_ready(2)  # it never is with some
        for _ in range(100):
            with contextlib.suppress(OSError):
                if server.complete("a", model="good")[0] == 200:
                    break
            time.sleep(0.2)
        yield server


def wrong_numbers(binary):
    """Scales that are NaN or infinite, which are seen as weights are loaded, W8A8, with the LM head and without, and W8A16, in a model beside a sound one. Wanted: /ready and each request to it name the tensor and the number, the sound one is served, no process ends"""
    fell, tried = [], 0
    for flags, scales in ((("W8A8",), SCALES), (("W8A8", "--lm-head"), "lm_head.weight_scale"), (("W8A16",), SCALES)):
        for number, said in (("nan", "is NaN"), ("inf", "is +Inf"), ("-inf", "is -Inf")):
            with of(binary, *flags)(tensors=change(scales, data=first(BF16[number]))) as bad, beside(binary, bad) as server:
                tried += 1
                before = {r: server.children(r) for r in ROLES}
                found = [server.complete("a b c", model=m) for m in ("bad", "good", "bad")]
                ready = server.request("GET", "/ready")
                texts = [ready[1].decode(), message(found[0][1]), message(found[2][1])]
                named = all(scales in t and said in t for t in texts)
                if [s for s, _ in found] != [503, 200, 503] or not named or before != {r: server.children(r) for r in ROLES}:
                    fell.append(f"{' '.join(flags)} {number}: {[s for s, _ in found]}, /ready {ready[0]} {texts}")
    return not fell, "; ".join(fell) or f"{tried} named, the other model served"


def huge_scales(binary):
    """Scales that are the largest bfloat16, so that what is computed is not finite, in a model beside a sound one. Wanted: the error of a request to it says so; the sound one is served, no process ends"""
    with of(binary, "W8A8")(tensors=change(SCALES, data=lambda d: BF16["largest"] * (len(d) // 2))) as bad:
        with beside(binary, bad) as server:
            before = {r: server.children(r) for r in ROLES}
            found = []
            for fields in ({}, {"logprobs": 5}, {"echo": True, "logprobs": 1}, {"max_tokens": 20, "temperature": 1}, {"guided_regex": "(yes|no)"}):
                status, body = server.complete("a b c", model="bad", **fields)
                found.append((status, "finite" in json.dumps(body) or "NaN" in json.dumps(body)))
                if server.complete("a b c", model="good")[0] != 200:
                    return False, f"the sound model is refused after {found}"
            same = before == {r: server.children(r) for r in before}
            return same and all(s >= 400 and said for s, said in found), f"{found}; the same processes: {same}"


WORK = {
    "a token": {"prompt": words(1, 300), "max_tokens": 1, "temperature": 0, "logprobs": 5},
    "tokens": {"prompt": words(2, 60), "max_tokens": 40, "temperature": 0.8, "seed": 5, "ignore_eos": True, "logprobs": 2},
    "echo": {"prompt": words(3, 500), "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 3},
}


def strike_int8(binary):
    """The demo model in bf16, W8A8 and W8A16 on one device, loaded in turn; SIGKILL, SEGV, ABRT, QUIT to the executor and the scheduler while 12 clients ask all three. Wanted: each answer equals the one before to the last digit, none is refused, and the three differ"""
    paths = {"bf16": DEMO, "w8a8": written(binary, "W8A8"), "w8a16": written(binary, "W8A16")}
    text = "models:\n" + "".join(f"- {{name: {n}, path: {p}, keep: on-demand}}\n" for n, p in paths.items())
    with listed(text) as path, Server(binary, "--config", str(path)) as server:
        if not server.wait_ready(60):
            return False, "the server did not start"

        def ask(model, name):
            return server.request("POST", "/v1/completions", {"model": model, **WORK[name]}, 120)

        asked = [(m, n) for m in paths for n in WORK]
        right = {a: told(ask(*a)[1]) for a in asked}
        apart = len({right[m, "a token"].replace(m.encode(), b"") for m in paths})
        going, answered, wrong = True, [0] * 12, []

        def run(number):
            turn = number
            while going:
                a = asked[turn % len(asked)]
                turn += 1
                try:
                    status, raw = ask(*a)
                except OSError as error:
                    status, raw = 0, str(error).encode()
                if status == 200 and told(raw) == right[a]:
                    answered[number] += 1
                else:
                    wrong.append(f"{a}: {status} {raw[:160]!r}")

        threads = [threading.Thread(target=run, args=(n,)) for n in range(12)]
        for t in threads:
            t.start()
        ready = True
        for role in ("executor", "scheduler"):
            for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGQUIT):
                before, end = list(answered), time.monotonic() + 45
                while any(now < then + 2 for now, then in zip(answered, before)) and time.monotonic() < end:
                    time.sleep(0.05)
                os.kill(server.children(role)[0], number)
                ready = ready and server.wait_ready(45)
        time.sleep(2)
        going = False
        for t in threads:
            t.join(130)
        jobs = open_jobs(server)
        held = ready and not wrong and apart == 3 and min(answered) > 0 and jobs == 0
        return held, f"{sum(answered)} answers to the last digit, {len(wrong)} not {wrong[:1]}; {apart} of 3 models differ; {jobs:.0f} jobs left"


ATTACKS = [lying_int8, lying_packed, lying_head, lying_groups, wrong_numbers, huge_scales, strike_int8]
