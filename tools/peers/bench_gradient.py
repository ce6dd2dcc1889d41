#!/usr/bin/env python3
"""What each saving of a gradient to a picture saves (OneAdapt, figure 4.7), for a chunk of frames, on one thread of this machine's CPU.

    pip install torch numpy onnx
    go build -o build/bench-dnn ./bench/dnn
    tools/peers/bench_gradient.py ../shared/data/models/yolox_nano_416.onnx

PyTorch computes the ONNX file's graph operation by operation. A plain backward pass has the gradients of all weights too; memory is what is kept from the forward pass
for the backward one. The engine's is all that it computes in, which has the picture and outputs, too. Times are of the processor, the least of some passes.
"""

import argparse
import pathlib
import subprocess
import sys
import time

import numpy
import onnx
import torch
import torch.nn.functional as F

import dnn_gradient_torch as network


FRAMES = 10
PASSES = 15


def nearest(a, x, roi=None, scales=None, sizes=None):
    return F.interpolate(x, size=[round(n * float(s)) for n, s in zip(x.shape[2:], scales[2:])], mode="nearest")


network.OPS["Resize"] = nearest


def by_torch(model, shape, gradients):
    """Seconds of a pass, and bytes that it keeps: gradients are none, of the picture, or of all."""
    constants, kept = [], {}

    def tensor(x):  # float32, where the golden gradients have float64
        t = torch.from_numpy(numpy.array(x))
        constants.append(t.requires_grad_() if gradients == "all" and t.is_floating_point() and t.numel() > 8 else t)
        return t

    def keep(t):
        kept[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    network.tensor = tensor
    picture = torch.rand(shape).requires_grad_(gradients != "none")
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t), torch.set_grad_enabled(gradients != "none"):
        begun = time.process_time()
        (y,) = network.run(model, picture)
        if gradients != "none":
            y.backward(torch.ones_like(y))
    took = time.process_time() - begun
    for t in constants:
        kept.pop(t.untyped_storage().data_ptr(), 0)
    return took, sum(kept.values())


def by_engine(engine, file):
    """Seconds of a pass and of one with gradients, and the bytes that they compute in."""
    process = subprocess.Popen([engine, "-model", file, "-threads", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(line):
        process.stdin.write(line + "\n")
        process.stdin.flush()
        return [float(v) for v in process.stdout.readline().split()]

    def used(line):
        def clock():
            return sum(int(f.read_text().split()[0]) for f in pathlib.Path(f"/proc/{process.pid}/task").glob("*/schedstat")) / 1e9
        begun = clock()
        ask(line)
        return clock() - begun

    process.stdout.readline()
    least = [min(used(line) for _ in range(PASSES)) for line in ("pass", "gradient")]
    arenas = ask("arenas")
    process.stdin.close()
    process.wait()
    return least, arenas


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL.onnx")
    parser.add_argument("--engine", default="build/bench-dnn")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model = onnx.load(arguments.model)
    shape = [d.dim_value for d in network.inputs(model)[0].type.tensor_type.shape.dim]
    print(f"{FRAMES} frames of {shape}")
    print(f"{'':46}{'time, ms':>10}{'in passes forward':>19}{'kept, MB':>10}")

    def line(what, seconds, frames, forward, kept):
        print(f"{what:46}{1e3 * seconds * frames:10.0f}{seconds * frames / forward:19.1f}{kept / 1e6:10.1f}")

    took = {g: [by_torch(model, shape, g) for _ in range(PASSES)] for g in ("none", "picture", "all")}
    forward = min(t for t, _ in took["none"])
    for what, g in (("PyTorch: looking", "none"), ("gradients of picture and weights", "all"), ("of the picture alone", "picture")):
        line(what, min(t for t, _ in took[g]), FRAMES, forward, took[g][0][1])
    (forward, backward), (alone, both) = by_engine(arguments.engine, arguments.model)
    line("engine: looking", forward, FRAMES, forward, alone)
    line("gradients of the picture", backward, FRAMES, forward, both)
    line("of one frame of the chunk", backward, 1, forward, both)


if __name__ == "__main__":
    main()
