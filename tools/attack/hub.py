"""Attacks by a hub: what it lists, where it sends its clients, and what comes when a file is asked for."""

import contextlib
import hashlib
import http.server
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import time

CONFIG, WEIGHTS = b'{"model_type":"llama"}', bytes(200_000)
COMMIT, TOKEN = "a" * 40, "hf_attacked"


def git_sha1(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def file(path, oid, size, lfs=None):
    return {"type": "file", "path": path, "oid": oid, "size": size, **({"lfs": {"oid": lfs, "size": size}} if lfs else {})}


def listing(size=len(WEIGHTS), lfs=hashlib.sha256(WEIGHTS).hexdigest(), more=()):
    return [file("config.json", git_sha1(CONFIG), len(CONFIG)), file("model.safetensors", "f" * 40, size, lfs), *more]


class Hub(http.server.BaseHTTPRequestHandler):
    """One answer of a hub is hostile: the one that `how` names, a method of this class."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, code, body=b"", **headers):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        with contextlib.suppress(ConnectionError):
            hostile = getattr(self, self.server.how, None)
            if hostile is None or not hostile():
                self.honest()

    do_HEAD = do_GET

    def honest(self, files=None, commit=COMMIT):
        if self.path.startswith("/api/"):
            answer = (files or listing()) if "/tree/" in self.path else {"id": "org/m", "sha": commit}
            return self.answer(200, json.dumps(answer).encode())
        if self.path.endswith("config.json"):
            return self.answer(200, CONFIG)
        return self.answer(200, WEIGHTS)

    def redirects_in_a_circle(self):
        self.answer(302, Location=self.path)
        return True

    def redirects_to_a_file(self):
        self.answer(302, Location="file:///etc/passwd")
        return True

    def wants_patience_of_years(self):
        self.answer(429, Retry_After="99999999")
        return True

    def answers_a_million_brackets(self):
        self.answer(200, b"[" * 1_000_000)
        return True

    def names_a_commit_that_is_a_path(self):
        self.honest(commit="../../../../evil")
        return True

    def lists_pages_without_end(self):
        if "/tree/" in self.path:
            self.answer(200, b"[]", Link=f'<http://{self.headers["Host"]}{self.path}>; rel="next"')
            return True

    def lists_pages_of_another_host(self):
        if "/tree/" in self.path:
            self.answer(200, b"[]", Link=f'<http://{self.server.other}/steal>; rel="next"')
            return True

    def lists(self, **files):
        if "/tree/" in self.path:
            self.honest(listing(**files))
            return True

    def lists_a_file_of_exabytes(self):
        return self.lists(size=1 << 62)

    def lists_a_size_that_is_a_text(self):
        return self.lists(size="many")

    def lists_a_checksum_that_is_a_path(self):
        return self.lists(lfs="../../../../../../evil")

    def lists_a_file_twice(self):
        return self.lists(more=[file("config.json", "b" * 40, 3)])

    def lists_another_checksum(self):
        return self.lists(lfs="0" * 64)

    def sends_files_from_another_host(self):
        if "/resolve/" in self.path:
            self.answer(302, Location=f"http://{self.server.other}/blob")
            return True

    def sends_a_byte_at_a_time(self):
        if self.path.endswith("model.safetensors"):
            self.send_response(200)
            self.send_header("Content-Length", str(len(WEIGHTS)))
            self.end_headers()
            while True:
                self.wfile.write(b"x")
                time.sleep(0.2)

    def sends_another_range(self):
        if self.path.endswith("model.safetensors"):
            self.answer(206, b"xxxxx", Content_Range="bytes 5-9/99999999999999")
            return True


class Other(http.server.BaseHTTPRequestHandler):
    """Another host, which keeps what tokens it was told, and whose files are of zeros."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.told.append(self.headers.get("Authorization"))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(CONFIG)


@contextlib.contextmanager
def serving(handler):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def download(binary, how, cache):
    """(exit code, message, what the other host was told) of a download that is interrupted after 20 s."""
    with serving(Other) as other, serving(Hub) as hub:
        other.told, hub.how, hub.other = [], how, f"localhost:{other.server_port}"
        env = {**os.environ, "HF_HOME": cache, "HF_TOKEN": TOKEN, "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}"}
        p = subprocess.Popen([binary, "model", "download", "org/m"], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            text, _ = p.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            p.send_signal(signal.SIGINT)
            text, _ = p.communicate(timeout=20)
        return p.returncode, text, other.told


def hostile_hub(binary):
    """Downloads from hubs that redirect in a circle, to file: and to other hosts, list pages without end, sizes of exabytes,
    paths for checksums and commits, a file twice, and send other bytes, other ranges, or a byte at a time.
    Wanted: an error that names the hub or the file; no snapshot, nothing outside the cache, the token told to the hub alone"""
    faults, refused, ended = [], 0, 0
    kinds = [name for name in vars(Hub) if name.startswith(("redirects_", "wants_", "answers_", "names_", "lists_", "sends_"))]
    with tempfile.TemporaryDirectory(prefix="attack-") as directory:
        for how in [*kinds, "honest_after_all"]:
            cache = pathlib.Path(directory, how)
            code, text, told = download(binary, how, str(cache))
            there = bool(list(cache.glob("hub/*/snapshots/*/config.json")))
            if there != (how == "honest_after_all") or (code == 0) != there:
                faults.append(f"{how}: exit code {code}, snapshot {there}")
            if TOKEN in text or any(told) or not there and "org/m" not in text:
                faults.append(f"{how}: {text.strip()}, told {told}")
            ended += "was ended" in text
            refused += code != 0 and "was ended" not in text
        if strangers := sorted(set(os.listdir(directory)) - {*kinds, "honest_after_all"}):
            faults.append(f"left {strangers}")
    return not faults, "; ".join(faults) or f"{refused} hubs refused by name, {ended} interrupted after 20 s; an honest one's model came"


ATTACKS = (hostile_hub,)
