#!/usr/bin/env python3
"""Makes an ONNX network of CARN-M, which enlarges pictures, from the weights that its authors publish.

    python3 -m venv build/carn && build/carn/bin/pip install torch numpy onnx onnxruntime pillow
    build/carn/bin/python tools/train/carn_onnx.py ../shared/data/models/carn_m.pth build/models/carn_m_x2.onnx

The weights are carn_m.pth of github.com/nmhkahn/CARN-pytorch (MIT). The input is [1, 3, height, width], red, green and blue from 0 to 1, of
any height and width; the output is that many times as high and wide as --factor says: 2, 3 or 4.

What is written is held against PyTorch, which computes the same definition, in pictures of noise. With --images DIR, a directory of PNG files
such as Set5, it is also measured as the paper measures: pictures made smaller by a bicubic filter, and enlarged again; luma, without
a border of --factor pixels. For Set5 the paper has 37.53, 33.99 and 31.92 dB.
"""

import argparse
import math
import pathlib

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

MEAN = (0.4488, 0.4371, 0.4040)  # of the pictures it was trained on
GROUPS = 4
SIZES = ((24, 40), (37, 53), (1, 1))  # that are compared


class Torch:
    """Operations that PyTorch computes."""

    def __init__(self, weights):
        self.weights = weights

    def conv(self, name, x, groups=1):
        w = self.weights[name + ".weight"]
        return F.conv2d(x, w, self.weights[name + ".bias"], padding=w.shape[-1] // 2, groups=groups)

    def relu(self, x):
        return F.relu(x)

    def add(self, x, y):
        return x + y

    def shift(self, x, by):
        return x + torch.tensor(by, dtype=x.dtype).reshape(1, 3, 1, 1)

    def concat(self, *xs):
        return torch.cat(xs, 1)

    def shuffle(self, x, factor):
        return F.pixel_shuffle(x, factor)


class Onnx:
    """Operations that become nodes of a graph."""

    def __init__(self, weights):
        self.weights, self.nodes, self.constants = weights, [], {}

    def node(self, op, *inputs, **attributes):
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def constant(self, name, value):
        self.constants[name] = numpy_helper.from_array(np.asarray(value, dtype=np.float32), name)
        return name

    def conv(self, name, x, groups=1):
        w = self.weights[name + ".weight"]
        pad = w.shape[-1] // 2
        given = [self.constant(f"{name}.{part}", self.weights[f"{name}.{part}"]) for part in ("weight", "bias")]
        return self.node("Conv", x, *given, group=groups, kernel_shape=list(w.shape[2:]), pads=[pad] * 4)

    def relu(self, x):
        return self.node("Relu", x)

    def add(self, x, y):
        return self.node("Add", x, y)

    def shift(self, x, by):
        return self.node("Add", x, self.constant(f"shift{len(self.nodes)}", np.reshape(by, (1, 3, 1, 1))))

    def concat(self, *xs):
        return self.node("Concat", *xs, axis=1)

    def shuffle(self, x, factor):
        return self.node("DepthToSpace", x, blocksize=factor, mode="CRD")

    def model(self, build):
        y = build(self, "x")
        self.nodes.append(helper.make_node("Identity", [y], ["y"]))
        shape = [1, 3, "height", "width"]
        graph = helper.make_graph(self.nodes, "carn_m", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, None, None])], self.constants.values())
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8, producer_name="prefillonly")
        onnx.checker.check_model(model)
        return model


def cascade(ops, x, name, block):
    """Three blocks, after each of which a convolution joins what all before it came to (Ahn and others, ECCV 2018, section 3.1)."""
    joined = out = x
    for i in (1, 2, 3):
        joined = ops.concat(joined, block(out, i))
        out = ops.relu(ops.conv(f"{name}c{i}.body.0", joined))
    return out


def efficient_residual(ops, x, name):
    """Two convolutions in groups, and one that joins the groups (section 3.2)."""
    y = ops.relu(ops.conv(f"{name}.body.0", x, GROUPS))
    y = ops.relu(ops.conv(f"{name}.body.2", y, GROUPS))
    return ops.relu(ops.add(ops.conv(f"{name}.body.4", y), x))


def carn_m(ops, x, factor):
    """CARN-M: cascades in a cascade, in each of which the same block is used three times."""
    x = ops.conv("entry", ops.shift(x, [-m for m in MEAN]))
    x = cascade(ops, x, "", lambda x, i: cascade(ops, x, f"b{i}.", lambda x, _: efficient_residual(ops, x, f"b{i}.b1")))
    for i, step in enumerate([2, 2] if factor == 4 else [factor]):
        x = ops.shuffle(ops.relu(ops.conv(f"upsample.up{factor}.body.{3 * i}", x, GROUPS)), step)
    return ops.shift(ops.conv("exit", x), MEAN)


def compare(session, weights, factor):
    """The greatest difference of ONNX Runtime from PyTorch, of colours from 0 to 1."""
    worst = 0.0
    for size in SIZES:
        x = np.random.default_rng(1).random((1, 3, *size), dtype=np.float32)
        with torch.no_grad():
            want = carn_m(Torch(weights), torch.from_numpy(x), factor).numpy()
        got = session.run(None, {"x": x})[0]
        assert got.shape == want.shape == (1, 3, size[0] * factor, size[1] * factor), got.shape
        worst = max(worst, float(np.abs(got - want).max()))
    return worst


def luma(picture):
    rgb = np.asarray(picture, dtype=np.float64)
    return 16 + (rgb @ [65.481, 128.553, 24.966]) / 255


def psnr(a, b, border):
    difference = (luma(a) - luma(b))[border:-border, border:-border]
    return 10 * math.log10(255**2 / np.mean(difference**2))


def measure(session, images, factor):
    """PSNR of each picture, enlarged by a bicubic filter and by the network."""
    for path in sorted(images.glob("*.png")):
        high = Image.open(path).convert("RGB")
        high = high.crop((0, 0, high.width // factor * factor, high.height // factor * factor))
        low = high.resize((high.width // factor, high.height // factor), Image.BICUBIC)
        x = np.asarray(low, dtype=np.float32).transpose(2, 0, 1)[None] / 255
        y = np.clip(session.run(None, {"x": x})[0][0].transpose(1, 2, 0) * 255, 0, 255).round().astype(np.uint8)
        yield path.stem, psnr(high, low.resize(high.size, Image.BICUBIC), factor), psnr(high, y, factor)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--factor", type=int, choices=(2, 3, 4), default=2)
    parser.add_argument("--images", type=pathlib.Path)
    args = parser.parse_args()
    weights = torch.load(args.weights, map_location="cpu", weights_only=True)
    model = Onnx(weights).model(lambda ops, x: carn_m(ops, x, args.factor))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    worst = compare(session, weights, args.factor)
    print(f"greatest difference from PyTorch: {worst:.2g}")
    assert worst < 1e-5, "ONNX Runtime and PyTorch disagree"
    args.out.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, args.out)
    print(f"{args.out}: {args.out.stat().st_size} bytes, enlarges by {args.factor}")
    if args.images:
        rows = list(measure(session, args.images, args.factor))
        for name, bicubic, network in rows:
            print(f"{name:12} bicubic {bicubic:.2f} dB, network {network:.2f} dB")
        print(f"{'mean':12} bicubic {np.mean([r[1] for r in rows]):.2f} dB, network {np.mean([r[2] for r in rows]):.2f} dB")


if __name__ == "__main__":
    main()
