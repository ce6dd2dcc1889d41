#!/usr/bin/env python3
"""Measure this engine and ONNX Runtime side by side on networks, on this machine's CPU.

Both compute the same ONNX file with as many threads, one frame at a time, on random inputs. They take turns, pass by
pass, so that a busy neighbour slows both alike; before each turn the other one's threads have time to fall asleep. Of
each the least and the median of the times of a pass are given, and the quartiles; the bar is on the ratio of medians.
"After 0.1 s" are the median and the 95th percentile of the passes that begin a turn, as frames of a camera come.
With it come the seconds from a file to the end of the first pass, and the most memory that the process has held.

  bench_dnn.py --engine build/bench-dnn MODEL.onnx...

Without models those of ../shared/data/models are taken that have inputs of fixed shapes. The engine is the program in
bench/dnn. With --json the figures are written to a file too.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time
import venv

REQUIREMENTS = ["onnxruntime==1.32.0", "numpy==2.4.6"]
REST = 0.1  # seconds before a turn: ONNX Runtime's threads spin for some 10 ms after a pass
BARS = {"yolox_nano_416": 0.8}  # of ONNX Runtime's time; 0.9 of other networks


def worker(file, threads):
    """ONNX Runtime as a contestant: runs inside the virtual environment, and speaks as bench/dnn does."""
    import numpy
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    begun = time.perf_counter()
    session = onnxruntime.InferenceSession(file, options)
    random = numpy.random.default_rng(1)
    feed = {i.name: random.random(i.shape, dtype=numpy.float32) for i in session.get_inputs()}
    session.run(None, feed)
    print(time.perf_counter() - begun, flush=True)
    for line in sys.stdin:
        if line.strip() == "memory":
            status = pathlib.Path("/proc/self/status").read_text()
            kilobytes = next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]
            print(int(kilobytes) * 1024, flush=True)
            continue
        start = time.perf_counter()
        session.run(None, feed)
        print(time.perf_counter() - start, flush=True)


class Contestant:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ready = float(self.read())
        self.times = []
        self.rested = []  # of the first pass of each turn

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.process.args}: ended with status {self.process.wait()}")
        return line

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return float(self.read())

    def close(self):
        memory = self.ask("memory")
        self.process.stdin.close()
        self.process.wait()
        return memory


def environment(folder):
    """A Python with the requirements."""
    python = folder / "bin" / "python"
    wanted = "\n".join(REQUIREMENTS)
    stamp = folder / "requirements.txt"
    if not stamp.exists() or stamp.read_text() != wanted:
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *REQUIREMENTS], check=True)
        stamp.write_text(wanted)
    return python


def summary(times):
    quartiles = statistics.quantiles(times, n=4)
    return {"least": min(times), "median": quartiles[1], "quartiles": [quartiles[0], quartiles[2]]}


def rested_summary(times):
    percentiles = statistics.quantiles(times, n=20, method="inclusive")
    return {"median": percentiles[9], "p95": percentiles[18]}


def measure(file, arguments, python):
    command = [arguments.engine, "-model", file, "-threads", str(arguments.threads)]
    if arguments.isa:
        command += ["-isa", arguments.isa]
    contestants = {
        "engine": Contestant(command),
        "onnxruntime": Contestant([python, __file__, "--worker", file, "--threads", str(arguments.threads)]),
    }
    end = time.monotonic() + arguments.seconds
    while time.monotonic() < end or len(contestants["engine"].times) < 20:
        for c in contestants.values():
            time.sleep(REST)
            turn = [c.ask("pass") for _ in range(3)]  # the first passes of a turn find the caches cold
            c.rested.append(turn[0])
            c.times.append(turn[-1])
    gradient = None
    if arguments.gradient:
        gradient = statistics.median([contestants["engine"].ask("gradient") for _ in range(20)][5:])
    figures = {
        name: {"ready": c.ready, **summary(c.times), "rested": rested_summary(c.rested), "memory": c.close()}
        for name, c in contestants.items()
    }
    ours, theirs = figures["engine"], figures["onnxruntime"]
    figures["ratio"] = ours["median"] / theirs["median"]
    figures["ratio of least"] = ours["least"] / theirs["least"]
    figures["bar"] = BARS.get(pathlib.Path(file).stem, 0.9)
    if gradient:
        figures["gradient"] = gradient / ours["median"]
    return figures


def print_table(results):
    print(f"{'':28} {'engine, ms':>22} {'ONNX Runtime, ms':>22} {'ratio of':>15} {'ready, ms':>11} {'memory, MB':>11} {'after 0.1 s: median/p95, ms':>28}")
    print(f"{'':28} {'least':>7}{'median':>8}{'Q1-Q3':>7} {'least':>7}{'median':>8}{'Q1-Q3':>7} {'least':>7}{'median':>8}")
    for name, f in results.items():
        cells = []
        for c in (f["engine"], f["onnxruntime"]):
            spread = (c["quartiles"][1] - c["quartiles"][0]) * 1e3
            cells.append(f"{c['least'] * 1e3:7.2f}{c['median'] * 1e3:8.2f}{spread:7.2f}")
        ready = "/".join(f"{f[c]['ready'] * 1e3:.0f}" for c in ("engine", "onnxruntime"))
        memory = "/".join(f"{f[c]['memory'] / 1e6:.0f}" for c in ("engine", "onnxruntime"))
        rested = "  ".join(f"{f[c]['rested']['median'] * 1e3:.2f}/{f[c]['rested']['p95'] * 1e3:.2f}" for c in ("engine", "onnxruntime"))
        gradient = f"  forward and backward {f['gradient']:.2f} of forward" if "gradient" in f else ""
        print(f"{name:28} {cells[0]} {cells[1]} {f['ratio of least']:7.2f}{f['ratio']:8.2f} {ready:>11} {memory:>11} {rested:>28}{gradient}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL.onnx")
    parser.add_argument("--engine", default="build/bench-dnn")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count()))
    parser.add_argument("--isa", default="", help="hold the engine to an instruction set")
    parser.add_argument("--seconds", type=float, default=10, help="of turns, for each network")
    parser.add_argument("--gradient", action="store_true", help="also passes with gradients")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--worker", metavar="MODEL.onnx", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.worker, arguments.threads)
        return
    root = pathlib.Path(__file__).resolve().parents[2]
    data = pathlib.Path(os.environ.get("PREFILLONLY_DATA", root.parent / "shared" / "data"))
    models = arguments.models or sorted(str(f) for f in (data / "models").glob("*.onnx") if "silero" not in f.name)
    if not models:
        sys.exit(f"no models: name some, or set PREFILLONLY_DATA ({data} has none)")
    python = environment(root / "build" / "peers-dnn")
    results = {pathlib.Path(f).stem: measure(f, arguments, python) for f in models}
    print_table(results)
    if arguments.json:
        report = {"cpu": platform.processor() or platform.machine(), "threads": arguments.threads, "requirements": REQUIREMENTS, "networks": results}
        pathlib.Path(arguments.json).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
