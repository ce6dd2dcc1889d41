"""Attacks on a server of several models: their names, their lists, and their coming and going."""

import contextlib
import http.client
import json
import os
import pathlib
import random
import signal
import tempfile
import threading
import time

from files import DEMO, checkpoint, starts
from server import Server, message

USER, ADMIN = {"Authorization": "Bearer user-key"}, {"Authorization": "Bearer admin-key"}
KEYS = {"PREFILLONLY_API_KEY": "user-key,admin-key @admin"}


@contextlib.contextmanager
def listed(text):
    """A file of parameters."""
    with tempfile.TemporaryDirectory(prefix="attack-") as directory:
        path = pathlib.Path(directory, "config.yaml")
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        yield path


def models(*names, keep="on-demand"):
    """A list of models that are all the demo model."""
    return "models:\n" + "".join(f"- {{name: {n}, path: {DEMO}, keep: {keep}}}\n" for n in names)


def other(content):
    """A safetensors file with the lowest bit of each weight another one: equal weights would be shared."""
    start = 8 + int.from_bytes(content[:8], "little")
    return content[:start] + bytes(b ^ 1 if i % 2 == 0 else b for i, b in enumerate(content[start:]))


def hostile_names(binary):
    """1,000 requests for models of hostile names (1 MB long, of control characters, of paths, of labels), in bodies and in paths. Wanted: 4xx each, no name in /metrics, the server answers on"""
    with Server(binary, env=KEYS) as server:
        server.wait_ready()
        names = ["x" * 1_000_000, "\0\x1b[2J\r\nX: y", "../../../etc/passwd", 'a",b="c"} 1\nevil_total', "\u202e\ufffe", "%2e%2e%2f", "a/load", "NaN"]
        wrong = set()
        for n in range(125):
            for name in names:
                status, _ = server.complete("a", headers=USER, model=f"{name}{n}")
                if not 400 <= status < 500:
                    wrong.add(f"{status} for {name[:20]!r}")
        for path in ("/v1/models/..%2f..%2fetc/passwd", "/v1/models/%00/load", "/v1/models//load", "/v1/models/load", "/v1/models/" + "a/" * 2000 + "unload"):
            for method in ("GET", "POST"):
                status, _ = server.request(method, path, headers=ADMIN)
                if not 400 <= status < 500:
                    wrong.add(f"{status} for {method} {path[:40]}")
        metrics = server.request("GET", "/metrics", headers=USER)[1]
        alive = server.complete("still there", headers=USER)[0] == 200
        held = alive and not wrong and b"evil_total" not in metrics and b"passwd" not in metrics and server.peak_memory() < 1 << 30
        return held, "; ".join(sorted(wrong)) or f"{125 * len(names) + 10} refused, /metrics has {len(metrics) >> 10} KiB, peak {server.peak_memory() >> 20} MiB"


def hostile_lists(binary):
    """Files of parameters that nest 10^5 deep, multiply by aliases, repeat names, name no model, or are binary. Wanted: exit code 78 and an error that names the file, within 10 s and 1 GiB"""
    laughs = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(f"{c}: &{c} [{','.join(['*' + p] * 9)}]\n" for p, c in zip("abcdefgh", "bcdefghi")) + "models: *i\n"
    cases = {
        "nested lists": "models: " + "[" * 100_000, "nested maps": "models: " + "{a: " * 100_000, "nested entries": "models:\n" + "- " * 100_000 + "x", "aliases": laughs,
        "tags": "models: " + "!a " * 100_000 + "x", "anchors": "models: " + "&a " * 100_000 + "x", "20 MB": "models:\n" + "- path: x\n" * 2_000_000,
        "binary": bytes(range(256)) * 100, "a name twice": models("a", "a"), "no path": "models: [{name: a}]\n", "a name of control characters": models('"a\\nb"'),
        "a number": "models: 7\n", "a map": "models: {path: x}\n", "shares": f"models: [{{path: {DEMO}, name: a, cache-share: 0.9}}, {{path: {DEMO}, name: b, cache-share: 0.9}}]\n",
    }
    fell, most = [], 0
    for name, text in cases.items():
        with listed(text) as path:
            code, seconds, output, memory = starts(binary, "--config", str(path), seconds=15)
            most = max(most, memory)
            if code != 78 or path.name not in output or seconds > 10 or memory > 1 << 30 or "goroutine" in output:
                fell.append(f"{name}: exit code {code} after {seconds:.0f} s: {output[-120:]!r}")
    return not fell, "; ".join(fell) or f"{len(cases)} files refused by name"


def thousand_models(binary):
    """1,000 models registered, requests to 50 of them in turn. Wanted: ready within 60 s, each answered, no process over 1 GiB"""
    names = [f"m{i}" for i in range(1000)]
    with listed(models(*names)) as path, Server(binary, "--config", str(path), "--kv-cache-memory-bytes", "64MiB") as server:
        start = time.monotonic()
        if not server.wait_ready(60):
            return False, "not ready after 60 s"
        ready = time.monotonic() - start
        known = len(json.loads(server.request("GET", "/v1/models")[1])["data"])
        found = [server.complete("a", model=random.choice(names))[0] for _ in range(50)]
        memory = server.peak_memory()
        return known == 1000 and found == [200] * 50 and memory < 1 << 30, f"ready after {ready:.1f} s, {known} listed, {found.count(200)} of 50 answered, peak {memory >> 20} MiB"


def unload_while_streaming(binary):
    """A model is unloaded and loaded by an admin's key 20 times while 4 clients stream from it, and by a key that is none. Wanted: each stream ends whole or is refused with a reason, the other key gets 403"""
    with listed(models("a", "b")) as path, Server(binary, "--config", str(path), env=KEYS) as server:
        server.wait_ready()
        going, whole, refused, cut = True, [], [], []

        def stream(number):
            while going:
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
                body = {"model": "a", "prompt": f"client {number}", "max_tokens": 200, "stream": True, "ignore_eos": True}
                try:
                    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json", **USER})
                    response = connection.getresponse()
                    text = response.read()
                    ended = text.rstrip().endswith(b"data: [DONE]")
                    if response.status == 200 and ended and b'"error"' not in text:
                        whole.append(1)
                    elif response.status in (429, 503) or b'"error"' in text:
                        refused.append(text[-200:])
                    else:
                        cut.append(text[-100:])
                except OSError as error:
                    cut.append(str(error))
                finally:
                    connection.close()

        threads = [threading.Thread(target=stream, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        set_to = []
        for n in range(20):
            time.sleep(0.2)
            set_to.append(server.request("POST", f"/v1/models/a/{'unload' if n % 2 == 0 else 'load'}", headers=ADMIN)[0])
        strangers = server.request("POST", "/v1/models/a/unload", headers=USER)[0], server.request("POST", "/v1/models/a/unload")[0]
        going = False
        for t in threads:
            t.join(60)
        alive = [server.complete("still there", headers=USER, model=m)[0] for m in ("a", "b")]
        held = alive == [200, 200] and not cut and strangers == (403, 401) and set_to == [200] * 20 and len(whole) > 0
        return held, f"{len(whole)} streams whole, {len(refused)} refused, {len(cut)} cut {cut[:1]}; {set_to.count(200)} of 20 times done; without an admin's key {strangers}"


def hangups(binary):
    """100 SIGHUPs, each with another list or a broken one, under 4 clients of the model that stays. Wanted: every request to it is answered, no process is started again"""
    with listed(models("a", "b")) as path, Server(binary, "--config", str(path)) as server:
        server.wait_ready()
        before = {r: server.children(r) for r in ("frontend", "executor")}
        going, answered, wrong = True, [], []

        def ask(number):
            while going:
                try:
                    status, body = server.complete(f"client {number}", model="a")
                except OSError as error:
                    status, body = 0, str(error)
                (answered if status == 200 else wrong).append(f"{status} {message(body)}")

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for n in range(100):
            path.write_text([models("a"), models("a", "b", "c"), "models: [", models("b", "a", keep="{idle: 1s}")][n % 4])
            server.process.send_signal(signal.SIGHUP)
            time.sleep(0.1)
        going = False
        for t in threads:
            t.join(60)
        same = before == {r: server.children(r) for r in ("frontend", "executor")}
        return same and not wrong and len(answered) > 0, f"{len(answered)} answered, {len(wrong)} not {wrong[:1]}; the same processes: {same}"


def broken_second(binary):
    """Two models, of which the second one's file is cut short, is a pipe, or is cut while it is served. Wanted: the first is served, requests to the second are refused with the cause"""
    fell, tried = [], 0
    for kind in ("cut", "pipe", "cut later"):
        with checkpoint() as good, checkpoint() as bad:
            weights = pathlib.Path(bad, "model.safetensors")
            content = other(weights.read_bytes())
            weights.write_bytes(content)
            if kind == "cut":
                weights.write_bytes(content[:-1000])
            if kind == "pipe":
                weights.unlink()
                os.mkfifo(weights)
            with Server(binary, f"good={good}", f"bad={bad}") as server:
                server.wait_ready()
                if kind == "cut later":
                    os.truncate(weights, 1000)
                tried += 1
                statuses = server.complete("a", model="good")[0], server.complete("a", model="bad")[0], server.complete("b", model="good")[0]
                status, body = server.complete("a", model="bad")
                if statuses[0] != 200 or statuses[2] != 200 or status != 503 or "model.safetensors" not in message(body):
                    fell.append(f"{kind}: {statuses}, then {status} {message(body)}")
    return not fell, "; ".join(fell) or f"{tried} refused by the file's name, the other model served"


ATTACKS = [hostile_names, hostile_lists, thousand_models, unload_while_streaming, hangups, broken_second]
