"""Attacks on vectors, rankings, decisions and structured answers: crashes under load, hostile checkpoints and forms, requests
that ask for everything, clients that leave."""

import array
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import signal
import tempfile
import threading
import time

from files import DEMO, checkpoint, starts
from server import Server, memory, message

HIDDEN, LAYERS, HEADS, VOCAB, LENGTH = 64, 2, 4, 300, 512
CONFIG = {
    "architectures": ["BertForSequenceClassification"], "model_type": "bert", "dtype": "float32", "hidden_size": HIDDEN, "intermediate_size": 2 * HIDDEN,
    "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "vocab_size": VOCAB, "max_position_embeddings": LENGTH, "type_vocab_size": 2,
    "layer_norm_eps": 1e-12, "hidden_act": "gelu", "pad_token_id": 0, "position_embedding_type": "absolute", "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0},
}


def tensors():
    """The names and shapes of a BERT with a classification head."""
    shapes = {"bert.embeddings.word_embeddings.weight": [VOCAB, HIDDEN], "bert.embeddings.position_embeddings.weight": [LENGTH, HIDDEN],
              "bert.embeddings.token_type_embeddings.weight": [2, HIDDEN], "bert.embeddings.LayerNorm.weight": [HIDDEN], "bert.embeddings.LayerNorm.bias": [HIDDEN]}

    def linear(name, outputs, inputs):
        shapes.update({f"{name}.weight": [outputs, inputs], f"{name}.bias": [outputs]})

    for i in range(LAYERS):
        layer = f"bert.encoder.layer.{i}."
        for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            linear(layer + part, HIDDEN, HIDDEN)
        linear(layer + "intermediate.dense", 2 * HIDDEN, HIDDEN)
        linear(layer + "output.dense", HIDDEN, 2 * HIDDEN)
        for part in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes.update({f"{layer}{part}.weight": [HIDDEN], f"{layer}{part}.bias": [HIDDEN]})
    linear("bert.pooler.dense", HIDDEN, HIDDEN)
    linear("classifier", 1, HIDDEN)
    return shapes


def weights(shapes):
    """A safetensors file of random weights; those of normalisations are near 1."""
    rng, header, body = random.Random(7), {}, b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        near = 1.0 if "LayerNorm.weight" in name else 0.0
        data = array.array("f", (near + rng.gauss(0, 0.15) for _ in range(count))).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def tokenizer():
    """A tokenizer of whole words, w0 to w294, behind BERT's special ones."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocab = {t: i for i, t in enumerate([*special, *(f"w{n}" for n in range(VOCAB - len(special)))])}
    added = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for i, t in enumerate(special)]
    one, two = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}], []
    two = [*one, {"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}]
    names = {t: {"id": t, "ids": [vocab[t]], "tokens": [t]} for t in ("[CLS]", "[SEP]")}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None, "pre_tokenizer": {"type": "Whitespace"},
            "post_processor": {"type": "TemplateProcessing", "single": one, "pair": two, "special_tokens": names}, "decoder": None,
            "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"}}


ENCODER = None  # the files of an encoder, made once


@contextlib.contextmanager
def encoder(**changed):
    """A cross-encoder of random weights, with files of other contents by name, __ for the dot and ___ for the slash; None: none."""
    global ENCODER
    if ENCODER is None:
        ENCODER = {"config.json": json.dumps(CONFIG).encode(), "tokenizer.json": json.dumps(tokenizer()).encode(), "model.safetensors": weights(tensors()),
                   "tokenizer_config.json": json.dumps({"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]"}).encode()}
    files = dict(ENCODER)
    for name, content in changed.items():
        files[name.replace("___", "/").replace("__", ".")] = content if isinstance(content, (bytes, type(None))) else json.dumps(content).encode()
    with tempfile.TemporaryDirectory(prefix="attack-") as directory:
        for name, content in files.items():
            path = pathlib.Path(directory, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is not None:
                path.write_bytes(content)
        yield directory


@contextlib.contextmanager
def both(binary, *args):
    """A server of the demo model and of an encoder, llm and encoder."""
    with encoder() as directory, tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write(f"models:\n- {{name: llm, path: {DEMO}, keep: always}}\n- {{name: encoder, path: {directory}, keep: always}}\n")
        f.flush()
        with Server(binary, "--config", f.name, *args) as server:
            yield server


def words(seed, count):
    rng = random.Random(seed)
    return " ".join(f"w{rng.randrange(290)}" for _ in range(count))


SCHEMA = {"type": "object", "properties": {"kind": {"enum": ["first", "second", "third"]}, "count": {"type": "integer", "minimum": 0, "maximum": 99}, "ok": {"type": "boolean"}},
          "required": ["kind", "count", "ok"], "additionalProperties": False}


def questions(count):
    return [{"type": "predicate", "instructions": f"Is {words(n, 3)} meant?"} for n in range(count)]


WORK = {
    "vectors": ("/v1/embeddings", {"model": "llm", "input": [words(n, 20) for n in range(32)]}),
    "classes": ("/classify", {"model": "encoder", "input": [words(n, 30) for n in range(64)]}),
    "rerank": ("/v1/rerank", {"model": "encoder", "query": "w1 w2 w3", "documents": [words(n, 12) for n in range(1000)]}),
    "decisions": ("/v1/decisions", {"model": "llm", "input": words(1, 60), "questions": questions(64)}),
    "stream of a form": ("/v1/completions", {"model": "llm", "prompt": words(2, 30), "max_tokens": 60, "temperature": 0.8, "seed": 3, "guided_json": SCHEMA, "stream": True}),
    "echo": ("/v1/completions", {"model": "llm", "prompt": words(3, 800), "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 5}),
}


def told(raw):
    """What a body says, without what names the request, the time, and what of it came from the cache."""
    text = re.sub(rb'"(id|created|request_id|cached_tokens)":\s*("[^"]*"|\d+),?', b"", raw)
    return re.sub(rb'"prompt_tokens_details":\s*(\{[^}]*\}|null),?', b"", text)


class Mixed:
    """Clients of all kinds of work. An answer is right if it is, to the last digit, the one before the crash; a request that a
    dying frontend held, or that was refused with a reason, is asked again."""

    def __init__(self, server, work, count=16):
        self.server, self.work, self.going, self.failed, self.wrong = server, work, True, {}, []
        self.right = {name: told(self.ask(name)[1]) for name in work}
        self.answered = dict.fromkeys(work, 0)
        self.threads = [threading.Thread(target=self.run, args=(n,)) for n in range(count)]
        for t in self.threads:
            t.start()

    def ask(self, name, timeout=120):
        path, body = self.work[name]
        return self.server.request("POST", path, body, timeout)

    def run(self, number):
        names = list(self.work)
        while self.going:
            name = names[number % len(names)]
            number += 1
            try:
                status, raw = self.ask(name)
            except (OSError, http.client.HTTPException):
                self.failed["closed"] = self.failed.get("closed", 0) + 1
                time.sleep(0.1)
                continue
            if status == 200 and told(raw) == self.right[name]:
                self.answered[name] += 1
            elif status in (429, 500, 503) and b'"message"' in raw or b'data: {"error"' in raw:
                self.failed[status] = self.failed.get(status, 0) + 1
                time.sleep(0.1)
            else:
                self.wrong.append(f"{name}: {status} {raw[:160]!r}")

    def close(self):
        self.going = False
        for t in self.threads:
            t.join(130)


def strike(binary, role, made=both, work=WORK):
    with made(binary, "--peer-timeout", "5s") as server:
        if not server.wait_ready(60):
            return False, "the server did not start"
        mixed = Mixed(server, work)
        if any(b'"error"' in r for r in mixed.right.values()):
            mixed.close()
            return False, "; ".join(f"{n}: {r[:150]!r}" for n, r in mixed.right.items() if b'"error"' in r)
        slowest = 0.0
        for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGSTOP):
            time.sleep(4)
            pids, struck = server.children(role), time.monotonic()
            if pids:
                os.kill(pids[0], number)
            time.sleep(1)
            ready, slowest = server.wait_ready(60), max(slowest, time.monotonic() - struck)
            if not ready:
                mixed.close()
                return False, f"after {number.name} the server is not ready; wrong {mixed.wrong[:2]}"
        time.sleep(4)
        before = dict(mixed.answered)
        end = time.monotonic() + 60
        while any(mixed.answered[n] == before[n] for n in work) and time.monotonic() < end:
            time.sleep(0.2)
        mixed.close()
        stuck = [n for n in work if mixed.answered[n] == before[n]]
        jobs = open_jobs(server)
        outcome = f"{sum(mixed.answered.values())} answers to the last digit ({', '.join(f'{n} {c}' for n, c in mixed.answered.items())}), refused or closed {mixed.failed}, {len(mixed.wrong)} wrong, ready after {slowest:.1f} s at most, {jobs:.0f} jobs left"
        return not mixed.wrong and not stuck and jobs == 0, outcome + (f" {mixed.wrong[0]}" if mixed.wrong else "") + (f"; never again {stuck}" if stuck else "")


def metric(server, name):
    """The sum of a metric over its labels."""
    text = server.request("GET", "/metrics")[1].decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if re.match(re.escape(name) + r"[ {]", line))


def open_jobs(server, seconds=20):
    """The jobs that are open, once there are none or time is up."""
    end = time.monotonic() + seconds
    while (jobs := metric(server, "prefillonly:open_jobs")) and time.monotonic() < end:
        time.sleep(0.1)
    return jobs


def strike_executor(binary):
    """SIGKILL, SEGV, ABRT, STOP to the executor under 16 clients: vectors, classes, rankings of 1,000 documents, decisions of 64 questions, streams of a form, echo with logprobs. Wanted: each answer equals the one before to the last digit, or is refused with a reason; all kinds are served again, no job is left"""
    return strike(binary, "executor")


def strike_scheduler(binary):
    """The same to the scheduler. Wanted: the same"""
    return strike(binary, "scheduler")


def strike_frontend(binary):
    """The same to the frontend. Wanted: the same, or the connection is closed"""
    return strike(binary, "frontend")


def changed(**fields):
    return {k: v for k, v in {**CONFIG, **fields}.items() if v is not None}


def lying_encoders(binary):
    """Encoders whose config.json lies (layers, heads, sizes, vocabulary, positions, labels), whose weights are cut or of other shapes, whose modules.json loops or names no folder, whose pooling contradicts itself, whose tokenizer is garbage or 500 MB of spaces. Wanted: an error that names the file, within 20 s and 1 GiB"""
    shapes = tensors()
    whole = weights(shapes)
    transformer = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}
    pooling = {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}

    def shaped(name, shape):
        return weights({**shapes, name: shape})

    cases = {  # what is changed, and what the error has to name
        "no layers": ({"config__json": changed(num_hidden_layers=0)}, "num_hidden_layers"),
        "10^9 layers": ({"config__json": changed(num_hidden_layers=10**9)}, "num_hidden_layers|safetensors"),
        "a layer more": ({"config__json": changed(num_hidden_layers=LAYERS + 1)}, "encoder.layer.2"),
        "a layer less": ({"config__json": changed(num_hidden_layers=LAYERS - 1)}, "encoder.layer.1"),
        "3 heads": ({"config__json": changed(num_attention_heads=3)}, "heads"),
        "no heads": ({"config__json": changed(num_attention_heads=0)}, "heads"),
        "-1 heads": ({"config__json": changed(num_attention_heads=-1)}, "heads"),
        "hidden 10^12": ({"config__json": changed(hidden_size=10**12)}, "hidden_size|safetensors"),
        "hidden -64": ({"config__json": changed(hidden_size=-64)}, "hidden_size"),
        "a larger vocabulary": ({"config__json": changed(vocab_size=VOCAB + 1)}, "word_embeddings|vocab_size"),
        "vocabulary 2^31": ({"config__json": changed(vocab_size=1 << 31)}, "word_embeddings|vocab_size"),
        "positions 10^9": ({"config__json": changed(max_position_embeddings=10**9)}, "position"),
        "no positions": ({"config__json": changed(max_position_embeddings=0)}, "position"),
        "3 labels": ({"config__json": changed(id2label={"0": "a", "1": "b", "2": "c"}, label2id={"a": 0, "b": 1, "c": 2})}, "classifier|label"),
        "labels of other ids": ({"config__json": changed(id2label={"7": "a"})}, "label"),
        "labels as text": ({"config__json": changed(id2label="LABEL_0")}, "config.json"),
        "epsilon NaN": ({"config__json": json.dumps(CONFIG).replace("1e-12", "NaN").encode()}, "config.json"),
        "epsilon -1": ({"config__json": changed(layer_norm_eps=-1)}, "layer_norm_eps"),
        "an unknown activation": ({"config__json": changed(hidden_act="x" * 10_000)}, "hidden_act"),
        "config is a list": ({"config__json": []}, "config.json"),
        "config nested": ({"config__json": b"[" * 1_000_000}, "config.json"),
        "weights cut": ({"model__safetensors": whole[:-1000]}, "model.safetensors"),
        "words of another shape": ({"model__safetensors": shaped("bert.embeddings.word_embeddings.weight", [HIDDEN, VOCAB])}, "word_embeddings"),
        "a bias too long": ({"model__safetensors": shaped("classifier.bias", [7])}, "classifier"),
        "a norm as a matrix": ({"model__safetensors": shaped("bert.encoder.layer.0.output.LayerNorm.weight", [HIDDEN, 2])}, "LayerNorm"),
        "no classifier": ({"model__safetensors": weights({n: s for n, s in shapes.items() if "classifier" not in n})}, "classifier"),
        "modules loop": ({"modules__json": [transformer, {**pooling, "path": "."}, {**pooling, "path": "../" * 3}]}, "modules.json|config.json"),
        "modules outside": ({"modules__json": [transformer, {**pooling, "path": "../../etc"}]}, "modules.json"),
        "modules of no folder": ({"modules__json": [transformer, pooling]}, "1_Pooling"),
        "10^5 modules": ({"modules__json": [transformer] * 100_000}, "modules.json"),
        "modules is a number": ({"modules__json": 7}, "modules.json"),
        "two poolings": ({"modules__json": [transformer, pooling], "1_Pooling___config__json": {"word_embedding_dimension": HIDDEN, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}}, "Pooling"),
        "no pooling": ({"modules__json": [transformer, pooling], "1_Pooling___config__json": {"word_embedding_dimension": HIDDEN, "pooling_mode_cls_token": False}}, "Pooling"),
        "pooling of another width": ({"modules__json": [transformer, pooling], "1_Pooling___config__json": {"word_embedding_dimension": 9 * HIDDEN, "pooling_mode_cls_token": True}}, "Pooling"),
        "tokenizer is garbage": ({"tokenizer__json": random.Random(1).randbytes(100_000)}, "tokenizer.json"),
        "tokenizer of 500 MB of spaces": ({"tokenizer__json": b" " * 500_000_000}, "tokenizer.json"),
        "a tokenizer of more words": ({"tokenizer__json": {**tokenizer(), "model": {**tokenizer()["model"], "vocab": {**tokenizer()["model"]["vocab"], "more": VOCAB + 5}}}}, "tokenizer.json|vocab"),
    }
    return refused(binary, encoder, cases, ["a tokenizer of more words"])  # as transformers does; a text that has them is refused


def refused(binary, made, cases, may):
    """Whether checkpoints that made makes of each case are refused by name, but for those that may be served; and the outcome."""
    fell, served, most = [], [], 0
    for name, (files, names) in cases.items():
        with made(**files) as directory:
            code, seconds, output, peak = starts(binary, *([directory] if isinstance(directory, str) else directory), seconds=20)
            most = max(most, peak)
            if code is None and peak < 1 << 30:
                served.append(name)
            elif not code or code < 0 or not re.search(names, output) or "goroutine" in output or peak > 1 << 30:
                fell.append(f"{name}: exit code {code} after {seconds:.0f} s, {peak >> 20} MiB: {output.strip()[-220:]!r}")
    outcome = f"{len(cases) - len(served) - len(fell)} checkpoints refused by name, peak {most >> 20} MiB"
    return not fell and served == may, outcome + (f"; served: {', '.join(served)}" if served else "") + "".join("; " + f for f in fell)


def lying_models(binary):
    """The demo model with a config.json that lies: layers, heads, key-value heads, sizes, vocabulary, positions, epsilon, types. Wanted: an error that names the file or the field, within 20 s and 1 GiB"""
    config = json.loads((DEMO / "config.json").read_text())
    cases = {}
    for field, values in {
        "num_hidden_layers": (0, -1, 10**9, config["num_hidden_layers"] + 1, config["num_hidden_layers"] - 1, "2"),
        "num_attention_heads": (0, -1, 7, 10**12), "num_key_value_heads": (0, -1, 5, 10**12), "head_dim": (0, -2, 3, 1 << 40),
        "hidden_size": (0, -64, 1 << 40, config["hidden_size"] * 2), "intermediate_size": (0, -1, 1 << 50), "vocab_size": (0, -1, 1 << 40, config["vocab_size"] + 1),
        "max_position_embeddings": (0, -1), "rms_norm_eps": (-1, 10**300), "rope_parameters": ({"rope_theta": 0}, {"rope_theta": -1}, {"rope_theta": 1e4, "rope_type": "no such"}, 7), "architectures": ([], ["x" * 100_000], 7),
    }.items():
        for value in values:
            cases[f"{field} {str(value)[:20]}"] = ({"config__json": json.dumps({**config, field: value})}, f"config.json|{field}|safetensors|rope|model\\.layers")
    return refused(binary, checkpoint, cases, [])


def lying_mixtures(binary):
    """The demo model as a mixture of experts whose config.json lies: 0, 10^6 and -1 experts, more chosen than there are, none, experts without a size, of 2^40, no step between layers, types. Wanted: an error that names the key or a tensor, within 20 s and 1 GiB"""
    config = json.loads((DEMO / "config.json").read_text())
    sound = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "shared_expert_intermediate_size": 64, "decoder_sparse_step": 1}
    lies = {
        "num_experts": (0, -1, 10**6, 1 << 62, "8", 8), "num_experts_per_tok": (0, -1, 9, 10**12, None), "moe_intermediate_size": (0, -1, 1 << 40, None),
        "decoder_sparse_step": (0, -1, "1"), "mlp_only_layers": (7, ["0"], [[0]]),
    }
    cases = {}
    for family in ("Qwen3Moe", "Qwen2Moe"):
        for field, values in lies.items():
            for value in values:
                lie = {**config, **sound, "architectures": [family + "ForCausalLM"], field: value}
                cases[f"{family} {field} {value}"] = ({"config__json": json.dumps(lie)}, f"{field}|mlp_only_layers|safetensors|model\\.layers")
    for field, values in {"num_local_experts": (0, -1, 10**6, 8), "num_experts_per_tok": (0, 9), "intermediate_size": (0, 1 << 40)}.items():
        for value in values:
            cases[f"Mixtral {field} {value}"] = ({"config__json": json.dumps({**config, "architectures": ["MixtralForCausalLM"], field: value})}, f"{field}|safetensors|model\\.layers")
    return refused(binary, checkpoint, cases, [])


def everything(binary):
    """One request each that asks for all: 2,048 inputs as long as the context, 100,000 documents to rank, 2,000 texts against 2,000, 10,000 questions, echo with logprobs 20 of 16,000 tokens with n and best_of 128. Wanted: an answer, or 4xx with the figure; no process over 1 GiB, others are served meanwhile"""
    with both(binary) as server:
        if not server.wait_ready(60):
            return False, "the server did not start"
        asked = {
            "inputs": ("/classify", {"model": "encoder", "input": [words(n % 50, LENGTH - 2) for n in range(2048)]}),
            "documents": ("/v1/rerank", {"model": "encoder", "query": "w1", "documents": ["w2 w3"] * 100_000}),
            "pairs": ("/score", {"model": "encoder", "text_1": ["w1 w2"] * 2000, "text_2": ["w3"] * 2000}),
            "more pairs than fit": ("/score", {"model": "encoder", "text_1": ["w1 w2"] * 2000, "text_2": ["w3"] * 1999}),
            "questions": ("/v1/decisions", {"model": "llm", "input": "x", "questions": questions(10_000)}),
            "logprobs": ("/v1/completions", {"model": "llm", "prompt": [5] * 16_000, "max_tokens": 1, "echo": True, "logprobs": 20, "n": 128, "best_of": 128}),
        }
        wrong, figures = [], []
        with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
            running = {name: pool.submit(server.request, "POST", *a, 300) for name, a in asked.items()}
            beside = []
            while not all(r.done() for r in running.values()):
                start = time.monotonic()
                if server.complete("beside", timeout=60, model="llm")[0] != 200:
                    wrong.append("a prompt beside them was refused")
                beside.append(time.monotonic() - start)
                time.sleep(0.1)
            for name, r in running.items():
                status, raw = r.result()
                figures.append(f"{name} {status}" + ("" if status == 200 else f" ({json.loads(raw)['error']['message'][:110]})"))
                if status != 200 and not (400 <= status < 500 and re.search(rb"\d", raw)):
                    wrong.append(f"{name}: {status} {raw[:100]!r}")
        most, jobs = server.peak_memory(), open_jobs(server)
        return not wrong and most < 1 << 30 and jobs == 0, "; ".join(wrong + figures) + f"; {len(beside)} prompts beside, the longest {max(beside, default=0):.1f} s; peak {most >> 20} MiB, {jobs:.0f} jobs left"


def leave_in_the_middle(binary):
    """40 clients that send a ranking of 1,000 documents of 500 tokens, 400 questions, or a form, and leave while it runs; 200 that send half of such a body. Wanted: the passes stop, no job is left, others are served"""
    with both(binary) as server:
        if not server.wait_ready(60):
            return False, "the server did not start"
        rank = {"model": "encoder", "query": "w1", "documents": [words(n, 490) for n in range(1000)]}
        asked = [("/v1/rerank", rank), ("/v1/decisions", {"model": "llm", "input": words(1, 2000), "questions": questions(400)}),
                 ("/v1/completions", {"model": "llm", "prompt": words(4, 500), "max_tokens": 3000, "guided_regex": ".{9000}", "stream": True, "n": 4, "temperature": 1})]
        bodies = [(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(b)}\r\n\r\n".encode(), b) for path, b in ((p, json.dumps(b).encode()) for p, b in asked)]
        before = metric(server, "prefillonly:passes_total")
        sockets = []
        for n in range(240):
            head, body = bodies[n % len(bodies)]
            s = server.raw(head + (body if n < 40 else body[: len(body) // 2]))
            sockets.append(s)
        time.sleep(2)
        running = metric(server, "prefillonly:passes_total")
        for s in sockets:
            s.close()
        left = time.monotonic()
        jobs = open_jobs(server, 30)
        stopped = time.monotonic() - left
        time.sleep(2)  # the scheduler tells its figures now and then
        still = metric(server, "prefillonly:passes_total")
        time.sleep(3)
        later = metric(server, "prefillonly:passes_total")
        alive = server.complete("still there", model="llm")[0]
        held = jobs == 0 and later == still and alive == 200 and running > before
        return held, f"{running - before:.0f} passes before they left; {stopped:.1f} s later no job was open, {still - running:.0f} passes on; {later - still:.0f} passes in the 3 s after that; {jobs:.0f} jobs left, another request {alive}"


def hostile_form(n):
    kind = n % 6
    if kind == 0:
        schema = {"const": n}
        for _ in range(60 + n % 60):
            schema = {"type": "array", "items": schema}
        return {"guided_json": schema}
    if kind == 1:
        return {"guided_json": {"enum": [f"{i * n}-{i * 7919:x}" for i in range(8000)]}}
    if kind == 2:
        return {"guided_regex": f"(a|b)*a(a|b){{{12 + n % 30}}}c"}
    if kind == 3:
        return {"guided_regex": f"([a-z]{{0,100000}}x{n}){{0,100000}}"}
    if kind == 4:
        return {"guided_json": {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}, {"const": n}]}, "b": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "array", "items": {"$ref": "#/$defs/a"}}]}}}}
    return {"guided_grammar": f'start: ("a"? "a"? start? "{n}"?)*\n'}


def many_forms(binary):
    """400 different hostile forms at a time (deep nesting, enums of 8,000, alternations, counts of 100,000, cycles of $ref, ambiguity), beside plain prompts and simple forms. Wanted: answers, 400 or 429 each within 120 s, no process over 1 GiB, plain prompts within 5 s"""
    with Server(binary) as server:
        if not server.wait_ready():
            return False, "the server did not start"
        statuses, slowest, wrong, fields = {}, 0.0, [], dict(max_tokens=30, temperature=1, ignore_eos=True)
        with concurrent.futures.ThreadPoolExecutor(400) as pool:
            def ask(n):
                start = time.monotonic()
                status, body = server.complete(f"form {n}", timeout=300, **fields, **hostile_form(n))
                return status, time.monotonic() - start, message(body) if status != 200 else ""

            running = [pool.submit(ask, n) for n in range(400)]
            plain, simple = [], []
            while not all(r.done() for r in running):
                for took, form in ((plain, {}), (simple, {"guided_regex": f"(yes|no) {len(simple)}"})):
                    start = time.monotonic()
                    status = server.complete("beside", timeout=120, **form)[0]
                    took.append(time.monotonic() - start)
                    if status not in ((200,) if took is plain else (200, 429)):
                        wrong.append(f"{status} beside them")
            for r in running:
                status, took, text = r.result()
                statuses[status] = statuses.get(status, 0) + 1
                slowest = max(slowest, took)
                if status not in (200, 400, 429) or took > 120:
                    wrong.append(f"{status} after {took:.0f} s {text[:100]}")
        most, now = server.peak_memory(), max(memory(p) for p in server.children("frontend"))
        held = not wrong and most < 1 << 30 and max(plain) < 5
        return held, "; ".join(wrong[:3]) + f"answers by status {statuses}, the slowest {slowest:.1f} s; beside them {len(plain)} plain prompts, the longest {max(plain):.1f} s, and simple forms, the longest {max(simple):.1f} s; peak {most >> 20} MiB, then {now >> 20} MiB"


ATTACKS = [strike_executor, strike_scheduler, strike_frontend, lying_encoders, lying_models, lying_mixtures, everything, leave_in_the_middle, many_forms]
