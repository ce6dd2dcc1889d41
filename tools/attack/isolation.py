"""Attacks on what clients can learn of one another by caches: salts and keys on every path, times, and caches filled on purpose."""

import concurrent.futures
import contextlib
import json
import pathlib
import statistics
import time

from files import DEMO, checkpoint
from server import ROLES, Server, decode, memory, message

TEXT = "the cat sat on the mat . " * 60


@contextlib.contextmanager
def classifier():
    """The demo model as a classifier of one label, whose head is of numbers near 0.01."""
    config = {**json.loads((DEMO / "config.json").read_text()), "architectures": ["LlamaForSequenceClassification"], "id2label": {"0": "yes"}, "label2id": {"yes": 0}}
    raw = (DEMO / "model.safetensors").read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header, body = json.loads(raw[8 : 8 + size]), raw[8 + size :]
    head = bytes([0x23, 0x3C]) * config["hidden_size"]
    header["score.weight"] = {"dtype": "BF16", "shape": [1, config["hidden_size"]], "data_offsets": [len(body), len(body) + len(head)]}
    text = json.dumps(header).encode()
    with checkpoint(config__json=json.dumps(config)) as directory:
        pathlib.Path(directory, "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + body + head)
        yield directory


@contextlib.contextmanager
def two_keys(binary, *args):
    """A server, and the headers of two keys of it."""
    with Server(binary, *args, env={"PREFILLONLY_API_KEY": "first-key,second-key"}) as server:
        if not server.wait_ready():
            raise RuntimeError("the server did not start")
        yield server, {"Authorization": "Bearer first-key"}, {"Authorization": "Bearer second-key"}


def generator_paths(text):
    """Bodies by path that read one text, of a generator."""
    return {
        "/v1/completions": {"prompt": text, "max_tokens": 1}, "/v1/chat/completions": {"messages": [{"role": "user", "content": text}], "max_tokens": 1},
        "/v1/embeddings": {"input": text}, "/pooling": {"input": text}, "/v1/decisions": {"input": text, "questions": [{"type": "predicate", "instructions": "Is it?"}]},
        "/v1/systemone": {"state": text, "questions": {"a": {"type": "noul", "instructions": "Is it?", "criteria": {"true": "It is.", "false": "It is not."}}}},
        "/generative_scoring": {"query": text, "items": ["a", "b"], "label_token_ids": [97, 98]},
    }


def classifier_paths(text):
    return {
        "/classify": {"input": text}, "/score": {"text_1": text, "text_2": ["a", "b"]}, "/v1/rerank": {"query": text, "documents": ["a", "b"]}, "/v2/rerank": {"query": text, "documents": ["a"]},
    }


def cached(server, path, body, headers=None, **more):
    """The cached tokens of a request, as its usage says; or what it says instead."""
    status, raw = server.request("POST", path, {**body, **more}, headers=headers)
    found = decode(raw)
    usage = found.get("usage") or (found.get("meta") or {}).get("tokens") or {}
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
    return details.get("cached_tokens", "none told") if status == 200 else f"{status} {message(found)[:120]}"


def salts_everywhere(binary):
    """One text under two values of cache_salt, and by two keys, on every path that reads a text: completions, chats, embeddings, pooling, decisions, System One, generative_scoring; and classify, score and rerank of a classifier.
    Wanted: what another salt or key finds is what nobody's finds; its own is found"""
    wrong, tried = [], 0
    with classifier() as directory:
        for paths, models in ((generator_paths, ()), (classifier_paths, (directory,))):
            with two_keys(binary, *models) as (server, first, second):
                for path, body in paths(TEXT).items():
                    tried += 1
                    nobody = cached(server, path, body, first, cache_salt=f"nobody {path}")
                    for what, headers, salt in (("salt", first, f"a {path}"), ("key", first, f"b {path}")):
                        other = (second, salt) if what == "key" else (first, salt + "\0")
                        mine = cached(server, path, body, headers, cache_salt=salt)
                        theirs = cached(server, path, body, other[0], cache_salt=other[1])
                        again = cached(server, path, body, headers, cache_salt=salt)
                        if (mine, theirs) != (nobody, nobody) or isinstance(nobody, str) and "none told" not in nobody or isinstance(again, int) and again <= nobody:
                            wrong.append(f"{path} by another {what}: nobody {nobody}, first {mine}, the other {theirs}, again {again}")
                seen = {p: cached(server, p, b, second) for p, b in paths("an unsalted text that the first key has asked . " * 40).items() if cached(server, p, b, first) is not None}
                fresh = {p: cached(server, p, b, second) for p, b in paths("some unsalted text that nobody else has asked . " * 40).items()}
                common = [p for p in seen if seen[p] != fresh[p] and abs(seen[p] - fresh[p]) > 20]
                wrong += [f"{p} unsalted: {seen[p]}, of a text nobody sent {fresh[p]}" for p in common]
    return not wrong, f"{tried} paths, each by another salt and another key as if nobody had asked" if not wrong else f"{len(wrong)} of {tried}: {wrong[:3]}"


def largest(server):
    """What the largest process of the server holds now, in MiB."""
    return max(memory(p) for role in ROLES for p in server.children(role)) >> 20


def first_tokens(binary):
    """15 prompts of 2,000 tokens that the first key has just sent, each sent by the second key, and then again, beside 15 that nobody sent, in turn.
    Wanted: cached_tokens 0, and a time to the first token that tells nothing: it differs from that of a prompt nobody sent by less than a quarter of what a hit saves"""
    with two_keys(binary) as (server, first, second):
        times, found = {"sent by another": [], "sent by nobody": [], "sent by oneself": []}, []

        def ask(what, prompt, headers):
            start = time.monotonic()
            status, body = server.complete(prompt, headers=headers)
            if what:
                times[what].append(time.monotonic() - start)
                found.append((what, body["usage"]["prompt_tokens_details"]["cached_tokens"] if status == 200 else message(body)))

        for n in range(15):  # no two begin with the same token
            prompt, other = ([97 + 20 * n + (i * (n + step) + i // 7) % 800 for i in range(step, 2000)] for step in (1, 11))
            ask(None, prompt, first)
            for what, tokens in ((("sent by another", prompt), ("sent by nobody", other)), (("sent by nobody", other), ("sent by another", prompt)))[n % 2]:
                ask(what, tokens, second)
            ask("sent by oneself", prompt, second)
        another, nobody, oneself = (statistics.median(times[what]) * 1e3 for what in times)
        told = [f for f in found if (f[1] == 0) != (f[0] != "sent by oneself")]
        held = not told and abs(another - nobody) < (nobody - oneself) / 4
        return held, f"median of a prompt sent by another key {another:.0f} ms, by nobody {nobody:.0f} ms, by oneself {oneself:.0f} ms; cached tokens as wanted but for {told[:2] or 'none'}"


def schema(n):
    """One of many schemas of 30 properties each."""
    kinds = ({"type": "string", "maxLength": 3 + n % 7}, {"type": "integer", "minimum": n}, {"enum": [f"v{n}", f"w{n}", "x"]}, {"type": "array", "items": {"type": "boolean"}, "maxItems": 1 + n % 5})
    names = [f"p{n}_{i}" for i in range(30)]
    return {"type": "object", "properties": {name: kinds[(n + i) % 4] for i, name in enumerate(names)}, "required": names}


def distinct_schemas(binary):
    """4,000 distinct schemas of 30 properties by 16 clients of one key, as many as go in 25 s, beside one small schema of another key, again and again.
    Wanted: the other's is answered within 5 s each time, no process over 1 GiB, and in the second half none grows by 128 MiB"""
    with two_keys(binary) as (server, first, second):
        end, sizes, statuses, small = time.monotonic() + 25, [], {}, {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}

        def ask(n):
            if time.monotonic() < end:
                status, _ = server.complete(f"form {n}", headers=first, max_tokens=4, guided_json=schema(n))
                statuses[status] = statuses.get(status, 0) + 1

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            running, beside, wrong = [pool.submit(ask, n) for n in range(4000)], [], []
            while not all(r.done() for r in running):
                start = time.monotonic()
                status, body = server.complete("beside", headers=second, max_tokens=20, guided_json=small)
                beside.append(time.monotonic() - start)
                if status != 200 or not body["choices"][0]["text"].lstrip().startswith("{"):
                    wrong.append(f"{status} {message(body)[:100]}")
                sizes.append(largest(server))
                time.sleep(0.1)
            for r in running:
                r.result()
        half, last = max(sizes[: len(sizes) // 2]), max(sizes[len(sizes) // 2 :])
        held = not wrong and max(beside) < 5 and last < 1 << 10 and last - half < 128 and set(statuses) <= {200, 429}
        return held, f"{statuses} of distinct schemas; {len(beside)} of the other key, the longest {max(beside):.1f} s {wrong[:2] or ''}; {half} MiB after a half, {last} MiB at the end"


def full_scores(binary):
    """prompt_logprobs=20 of distinct prompts of 500 tokens by 6 clients of one key, until they are a tenth more than the 64 MiB that are kept, with a prefix cache of 64 MiB, beside one prompt of another key with prompt_logprobs, echo and logprobs, again and again, and the same prompt by the first key.
    Wanted: the other's figures are the same to the last digit each time, for the first key too, no process over 1 GiB, and in the second half none grows by 128 MiB"""
    with two_keys(binary, "--kv-cache-memory-bytes", "64MiB") as (server, first, second):
        mine = {"prompt": [97 + i * i % 800 for i in range(1500)], "prompt_logprobs": 5, "echo": True, "logprobs": 5, "max_tokens": 2}

        def figures(headers):
            status, body = server.complete(headers=headers, **mine)
            return status, body["choices"] if status == 200 else message(body)

        enough, end = 11 * (64 << 20) // 10 // (40 + 8 * 20), time.monotonic() + 240
        sizes, wrong, right, filled = [], [], figures(second), []

        def fill(client):
            n = 0
            while 500 * len(filled) < enough and time.monotonic() < end:
                n += 1
                prompt = [97 + (i * (6 * n + client + 3) + i // 11) % 800 for i in range(500)]
                filled.append(server.request("POST", "/v1/completions", {"prompt": prompt, "max_tokens": 1, "prompt_logprobs": 20}, headers=first)[0])

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            running, same, took = [pool.submit(fill, c) for c in range(6)], 0, []
            while not all(r.done() for r in running):
                for headers in (second, first):
                    began = time.monotonic()
                    now = figures(headers)
                    took.append(time.monotonic() - began)
                    same += now == right
                    if now != right and now[0] != 429:
                        wrong.append(f"{now[0]} {str(now[1])[:100]}")
                sizes.append(largest(server))
            for r in running:
                r.result()
        half, last = max(sizes[: len(sizes) // 2 + 1]), max(sizes[len(sizes) // 2 :])
        held = right[0] == 200 and not wrong and same > 4 and last < 1 << 10 and last - half < 128 and set(filled) <= {200, 429} and 500 * len(filled) >= enough
        return held, f"{len(filled)} prompts of {sorted(set(filled))}, {500 * len(filled):,} positions of {enough:,} wanted; {same} times the same figures, {len(wrong)} others {wrong[:2] or ''}, within {statistics.median(took):.1f} s, {max(took):.1f} s at most; {half} MiB after a half, {last} MiB at the end"


ATTACKS = [salts_everywhere, first_tokens, distinct_schemas, full_scores]
