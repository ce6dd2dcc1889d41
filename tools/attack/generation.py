"""Attacks on requests that last: answers of several tokens and prompts of 32,000, whose processes are struck in the middle."""

import concurrent.futures
import http.client
import json
import os
import signal
import time

from encoders import SCHEMA, metric, open_jobs, told, words
from files import DEMO, checkpoint
from server import Server, message

SIGNALS = [signal.SIGSEGV, signal.SIGABRT, signal.SIGQUIT, signal.SIGKILL]
LONG = [100 + (7 * i + i // 900) % 800 for i in range(32_000)]
GENERATED = {"max_tokens": 300, "ignore_eos": True, "temperature": 0.7, "seed": 11}
ASKED = {
    "stream": {"prompt": words(1, 40), "stream": True, "logprobs": 2, **GENERATED},
    "streams of several": {"prompt": words(2, 40), "stream": True, "n": 4, **GENERATED},
    "tokens": {"prompt": words(3, 400), **GENERATED},
    "form": {"prompt": words(4, 40), **GENERATED, "guided_json": SCHEMA, "ignore_eos": False},
    "long prompt": {"prompt": LONG, "max_tokens": 8, "temperature": 0, "logprobs": 5, "ignore_eos": True},
}


def long_model():
    """The demo model for prompts of up to 40,000 tokens."""
    config = json.loads((DEMO / "config.json").read_text())
    return checkpoint(config__json=json.dumps({**config, "max_position_embeddings": 40_000}))


def answer(server, body):
    """What came of a request: its answer without what is another's each time, "closed", or an error body."""
    try:
        status, raw = server.request("POST", "/v1/completions", body, 600)
    except (OSError, http.client.HTTPException):
        return "closed"
    ended = raw.rstrip().endswith(b"data: [DONE]") and b'{"error"' not in raw if body.get("stream") else status == 200
    if not ended and raw.startswith(b"data:") and b'{"error"' not in raw:
        return "closed"  # a stream without its end, whose client sees so
    return in_order(told(raw)) if ended else f"{status} {raw[-200:]!r}"


def in_order(raw):
    """A stream's events by choice: those of several choices come as they are made."""
    if not raw.startswith(b"data:"):
        return raw
    choices = {}
    for line in raw.splitlines():
        if line.startswith(b"data: {"):
            for c in json.loads(line[6:])["choices"]:
                choices.setdefault(c["index"], []).append(c["text"])
    return {i: "".join(parts) for i, parts in choices.items()}


def struck(binary, role):
    with long_model() as directory, Server(binary, directory, "--server-dev-mode") as server:
        if not server.wait_ready(120):
            return False, "the server did not start"
        right = {name: answer(server, body) for name, body in ASKED.items()}
        if bad := [f"{n}: {a}" for n, a in right.items() if isinstance(a, str)]:
            return False, "; ".join(bad)
        wrong, closed, held = [], 0, 0
        for number in SIGNALS:
            server.request("POST", "/reset_prefix_cache")
            with concurrent.futures.ThreadPoolExecutor(len(ASKED)) as pool:
                running = {name: pool.submit(answer, server, body) for name, body in ASKED.items()}
                while not metric(server, "prefillonly:open_jobs") and not all(r.done() for r in running.values()):
                    time.sleep(0.01)
                time.sleep(0.5)
                open_ones = sum(not r.done() for r in running.values())
                os.kill(server.children(role)[0], number)
                for name, r in running.items():
                    got = r.result()
                    if got == right[name]:
                        held += 1
                    elif got == "closed" and role == "frontend":
                        closed += 1
                    else:
                        wrong.append(f"{name} after {number.name}: {str(got)[:200]}")
            if open_ones < 2 or not server.wait_ready(45):
                return False, f"at {number.name} {open_ones} were open; then the server is{'' if server.wait_ready(1) else ' not'} ready; {wrong[:2]}"
        again = all(answer(server, body) == right[name] for name, body in ASKED.items())
        jobs = open_jobs(server)
        outcome = f"{held} of {len(SIGNALS) * len(ASKED)} answered as before, {closed} closed, {len(wrong)} not so {wrong[:1]}; afterwards all as before: {again}; {jobs:.0f} jobs left"
        return not wrong and again and jobs == 0, outcome


def generation_executor(binary):
    """SEGV, ABRT, QUIT, KILL to the executor amid streams and answers of 300 tokens, a form, and a prompt of 32,000 tokens. Wanted: each is answered as if nothing had been"""
    return struck(binary, "executor")


def generation_scheduler(binary):
    """The same to the scheduler. Wanted: the same"""
    return struck(binary, "scheduler")


def generation_frontend(binary):
    """The same to the frontend. Wanted: connections are closed, a stream without its end; asked again, each is answered as before"""
    return struck(binary, "frontend")


def one_for_all(binary):
    """One request each of completions and chat with everything: n and best_of at their most, logprobs, prompt_logprobs, echo, a form, stream, all max_tokens, penalties, stop strings, biases; for a prompt of 32,000 tokens too. Wanted: an answer, or 4xx that names the field; no process over 1 GiB, others are served meanwhile"""
    most = {"n": 128, "stream": True, "stream_options": {"include_usage": True}, "prompt_logprobs": 20, "guided_json": {"type": "array", "items": SCHEMA, "minItems": 50}, "max_tokens": 7000,
            "temperature": 1, "top_p": 0.9, "top_k": 50, "min_p": 0.01, "seed": 1, "presence_penalty": 1, "frequency_penalty": 1, "repetition_penalty": 1.1, "stop": ["x", "yz"],
            "logit_bias": {str(i): 1 for i in range(100, 400)}, "min_tokens": 10, "ignore_eos": True}
    chat = {**most, "messages": [{"role": "user", "content": words(1, 200)}], "logprobs": True, "top_logprobs": 20}
    text = {**most, "prompt": words(1, 200), "logprobs": 20, "echo": True, "best_of": 128}
    asked = {"chat": chat, "text": text, "long": {**text, "prompt": LONG}}
    for name, left in {"text": ("best_of", "echo"), "long": ("best_of", "echo"), "chat": ("guided_json",)}.items():
        asked[f"{name} without {' and '.join(left)}"] = {k: v for k, v in asked[name].items() if k not in left}
    for name, body in list(asked.items()):  # what is served: no penalties, fewer answers, prompt_logprobs where nothing is streamed
        few = {k: v for k, v in body.items() if not k.endswith("_penalty")} | {"n": 4, "max_tokens": 300} | ({"best_of": 4} if "best_of" in body else {})
        asked[f"{name}, few"] = {k: v for k, v in few.items() if k != "prompt_logprobs"}
        asked[f"{name}, few, at once"] = {k: v for k, v in few.items() if not k.startswith("stream")}
    with long_model() as directory, Server(binary, directory) as server:
        if not server.wait_ready(120):
            return False, "the server did not start"
        wrong, statuses, most_taken, beside = [], {}, 0.0, []

        def ask(body):
            start = time.monotonic()
            status, raw = server.request("POST", "/v1/chat/completions" if "messages" in body else "/v1/completions", body, 200)
            return status, raw, time.monotonic() - start

        with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
            running = {name: pool.submit(ask, body) for name, body in asked.items()}
            while not all(r.done() for r in running.values()):
                start = time.monotonic()
                if server.complete("beside", timeout=200)[0] != 200:
                    wrong.append("a prompt beside them was refused")
                beside.append(time.monotonic() - start)
                time.sleep(0.1)
            for name, r in running.items():
                status, raw, took = r.result()
                statuses[status], most_taken = statuses.get(status, 0) + 1, max(most_taken, took)
                if status == 200 and (b'{"error"' in raw or "stream" in asked[name] and not raw.rstrip().endswith(b"data: [DONE]")):
                    wrong.append(f"{name}: a stream that ends with {raw[-160:]!r}")
                if status != 200 and not (400 <= status < 500 and any(f in message(json.loads(raw)) for f in asked[name])):
                    wrong.append(f"{name}: {status} {raw[:160]!r}")
        peak, jobs = server.peak_memory(), open_jobs(server)
        outcome = f"answers by status {statuses}, the slowest {most_taken:.0f} s; {len(beside)} prompts beside them, the longest {max(beside, default=0):.1f} s; peak {peak >> 20} MiB, {jobs:.0f} jobs left"
        return not wrong and statuses.get(200, 0) > 0 and peak < 1 << 30 and jobs == 0, "; ".join([*wrong, outcome])


ATTACKS = [generation_executor, generation_scheduler, generation_frontend, one_for_all]
