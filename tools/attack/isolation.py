"""Attacks on what clients can learn of one another by caches: salts and keys on every path, times, and caches filled on purpose."""

import contextlib
import json
import pathlib

from files import DEMO, checkpoint
from server import Server, decode, message

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
            with Server(binary, *models, env={"PREFILLONLY_API_KEY": "first-key,second-key"}) as server:
                if not server.wait_ready():
                    return False, "the server did not start"
                first, second = ({"Authorization": f"Bearer {key}-key"} for key in ("first", "second"))
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


ATTACKS = [salts_everywhere]
