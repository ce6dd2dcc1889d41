#!/usr/bin/env python3
"""Times vectors of 1,000 short texts through HTTP beside sentence-transformers, in turns, on the same checkpoint.

    python3 tools/peers/encoders_http.py BINARY [SHAPE ...]     SHAPE as in encoders_torch.py, whose packages this needs; minilm-l6 without

BINARY serves; requests are of openai's Python client, which asks for base64, and of plain HTTP for JSON's numbers. Without
openai those lines are left out. A line says the median texts a second of the rounds, all the client's work included.
"""

import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import torch
from sentence_transformers import SentenceTransformer

from encoders_torch import save, texts

try:
    import openai
except ImportError:
    openai = None

ROUNDS = int(os.environ.get("ROUNDS", "5"))
TEXTS = texts(1000)
NAME = "encoder"


def serve(binary, directory):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PREFILLONLY_")}
    server = subprocess.Popen([binary, "serve", directory, "--served-model-name", NAME, "--port", str(port), "--no-access-log", "--log-level", "warn"], env=clean)
    while server.poll() is None:
        try:
            if urllib.request.urlopen(f"http://127.0.0.1:{port}/ready").status == 200:
                return server, port
        except OSError:
            time.sleep(0.2)
    sys.exit("the server ended")


def plain(port, size):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for i in range(0, len(TEXTS), size):
        connection.request("POST", "/v1/embeddings", json.dumps({"model": NAME, "input": TEXTS[i : i + size]}), {"Content-Type": "application/json"})
        answer = json.load(connection.getresponse())
        assert len(answer["data"]) == min(size, len(TEXTS) - i), answer
    connection.close()


def by_client(client, size, together):
    lists = [TEXTS[i : i + size] for i in range(0, len(TEXTS), size)]
    with ThreadPoolExecutor(together) as pool:
        for answer, asked in zip(pool.map(lambda t: client.embeddings.create(model=NAME, input=t), lists), lists):
            assert len(answer.data) == len(asked)


def ways(port, directory):
    found = {"plain HTTP, 1 request": lambda: plain(port, 1000), "plain HTTP, requests of 64": lambda: plain(port, 64)}
    if openai:
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none")
        found["openai, 1 request"] = lambda: by_client(client, 1000, 1)
        found["openai, requests of 64, 4 at a time"] = lambda: by_client(client, 64, 4)
    for dtype in (torch.float32, torch.bfloat16):
        model = SentenceTransformer(directory, device="cpu", model_kwargs={"dtype": dtype})
        for batch in (32, 64):
            name = f"sentence-transformers {str(dtype).removeprefix('torch.')}, batch {batch}"
            found[name] = lambda model=model, batch=batch: model.encode(TEXTS, batch_size=batch)
    return found


def compare(binary, shape):
    with tempfile.TemporaryDirectory() as directory:
        save(shape, directory)
        server, port = serve(binary, directory)
        try:
            measured = ways(port, directory)
            rates = {name: [] for name in measured}
            for i in range(ROUNDS + 1):  # the first to warm up
                for name, run in measured.items():
                    start = time.perf_counter()
                    run()
                    if i:
                        rates[name].append(len(TEXTS) / (time.perf_counter() - start))
        finally:
            server.terminate()
            server.wait()
    for name, r in rates.items():
        print(f"{shape}, {name}: {statistics.median(r):.0f} texts/s ({min(r):.0f} to {max(r):.0f})", flush=True)


if __name__ == "__main__":
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {ROUNDS} rounds", flush=True)
    for name in sys.argv[2:] or ["minilm-l6"]:
        compare(sys.argv[1], name)
