"""A prefillonly server of one model that is called m, as a child process, and what a comparison needs of it: requests, and the list of what was wrong."""
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

wrong = []
_port = 0


def check(what, ok, figure=""):
    print(f"{'ok   ' if ok else 'WRONG'} {what}{figure and ': '}{figure}", flush=True)
    if not ok:
        wrong.append(what)


def ask(url, **body):
    """The answer of any server to a POST request; of one that is refused its error, with the status."""
    try:
        return json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})))
    except urllib.error.HTTPError as error:
        return {"status": error.code, **json.load(error)}


def address(path):
    return f"http://127.0.0.1:{_port}{path}"


def post(path, **body):
    return ask(address(path), model="m", **body)


@contextlib.contextmanager
def served(binary, model, *arguments):
    """Requests go to this server until it ends; its process is the parent of all others."""
    global _port
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        _port = s.getsockname()[1]
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PREFILLONLY_")}
    server = subprocess.Popen([binary, "serve", f"m={model}", "--port", str(_port), "--no-access-log", "--log-level", "warn", *arguments], env=clean)
    try:
        while True:
            with contextlib.suppress(OSError):
                if urllib.request.urlopen(address("/ready")).status == 200:
                    break
            if server.poll() is not None:
                sys.exit("the server ended")
            time.sleep(0.2)
        yield server.pid
    finally:
        server.terminate()
        server.wait()
