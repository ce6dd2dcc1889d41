#!/usr/bin/env python3
"""Makes an ONNX network of ESPNetv2 for segmentation from the weights that its authors publish.

    python3 -m venv build/espnet && build/espnet/bin/pip install torch numpy onnx onnxruntime
    build/espnet/bin/python tools/train/espnetv2_onnx.py ../shared/data/models/espnetv2_s2_pascal_384x384.pth build/models/pascal.onnx --size 256x256

The weights are espnetv2_s_2.0_*.pth of github.com/sacmehta/EdgeNets (MIT). The input is [1, 3, height, width], red, green and blue from -1 to 1, as the
decoder "segmentation" has it, the output [1, classes, height, width] logarithms of likelihoods but for a common term. Height and width are multiples of 16.
Normalisations stay nodes of their own, so that networks that are to share weights have their own scales and shifts.

With --against FILE, an ONNX network of the same weights that another program exported, whose input is normalised, both answer noise.
"""

import argparse
import math
import pathlib
from collections import namedtuple

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper

MEAN, DEVIATION = np.array((0.485, 0.456, 0.406)), np.array((0.229, 0.224, 0.225))  # of the pictures it was trained on
SCALES = (2.0, 1.5, 1.0, 0.5, 0.1)  # of a pyramid
BLOCKS = {"level3": 3, "level4": 7}  # behind the one that halves

Map = namedtuple("Map", "name channels height width")


class Writer:
    """Operations that become nodes of a graph."""

    def __init__(self, weights):
        self.weights, self.nodes, self.constants = weights, [], {}

    def node(self, op, *inputs, name=None, **attributes):
        name = name or f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def constant(self, name, value=None):
        value = np.asarray(self.weights[name] if value is None else value)
        self.constants[name] = numpy_helper.from_array(value if value.dtype == np.int64 else value.astype(np.float32), name)
        return name

    def conv(self, x, name, stride=1, dilation=1):
        w = self.weights[name + ".weight"]
        given = [self.constant(f"{name}.{part}") for part in ("weight", "bias") if f"{name}.{part}" in self.weights]
        pad = w.shape[-1] // 2 * dilation
        y = self.node("Conv", x.name, *given, name=name, group=x.channels // w.shape[1], kernel_shape=list(w.shape[2:]),
                      pads=[pad] * 4, strides=[stride] * 2, dilations=[dilation] * 2)
        return Map(y, w.shape[0], -(-x.height // stride), -(-x.width // stride))

    def norm(self, x, name):
        given = [self.constant(f"{name}.{part}") for part in ("weight", "bias", "running_mean", "running_var")]
        return x._replace(name=self.node("BatchNormalization", x.name, *given, epsilon=1e-5))

    def prelu(self, x, name):
        slope = self.constant(f"{name}.weight", self.weights[f"{name}.weight"].reshape(-1, 1, 1))
        return x._replace(name=self.node("PRelu", x.name, slope))

    def add(self, x, y):
        return x._replace(name=self.node("Add", x.name, y.name))

    def concat(self, *xs):
        return xs[0]._replace(name=self.node("Concat", *(x.name for x in xs), axis=1), channels=sum(x.channels for x in xs))

    def halve(self, x):
        y = self.node("AveragePool", x.name, kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2], count_include_pad=1)
        return Map(y, x.channels, -(-x.height // 2), -(-x.width // 2))

    def resize(self, x, height, width):
        sizes = self.constant(f"size{len(self.nodes)}", np.array((1, x.channels, height, width), dtype=np.int64))
        y = self.node("Resize", x.name, "", "", sizes, mode="linear", coordinate_transformation_mode="align_corners")
        return x._replace(name=y, height=height, width=width)

    def pool(self, x, height, width):
        """The mean of each of so many parts, which may overlap. What a product has from a node is no weights of a layer."""
        rows = self.node("Transpose", self.constant(f"rows{len(self.nodes)}", parts(x.height, height).T))
        columns = self.node("Transpose", self.constant(f"columns{len(self.nodes)}", parts(x.width, width)))
        return x._replace(name=self.node("MatMul", self.node("MatMul", rows, x.name), columns), height=height, width=width)

    def shuffle(self, x, groups):
        shape = lambda *s: self.constant(f"shape{len(self.nodes)}", np.array(s, dtype=np.int64))
        y = self.node("Reshape", x.name, shape(1, groups, x.channels // groups, x.height, x.width))
        y = self.node("Transpose", y, perm=[0, 2, 1, 3, 4])
        return x._replace(name=self.node("Reshape", y, shape(1, x.channels, x.height, x.width)))

    def model(self, height, width):
        shift = self.constant("picture.shift", ((0.5 - MEAN) / DEVIATION).reshape(1, 3, 1, 1))
        scale = self.constant("picture.scale", (0.5 / DEVIATION).reshape(1, 3, 1, 1))
        x = self.node("Add", self.node("Mul", "image", scale), shift)
        y = segment(self, Map(x, 3, height, width))
        self.nodes.append(helper.make_node("Identity", [y.name], ["logits"]))
        value = lambda name, channels: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, channels, height, width])
        graph = helper.make_graph(self.nodes, "espnetv2", [value("image", 3)], [value("logits", y.channels)], self.constants.values())
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8, producer_name="prefillonly")
        onnx.checker.check_model(model, full_check=True)
        return model


def parts(n, m):
    """How much each of n is of the mean of each of m parts."""
    matrix = np.zeros((m, n))
    for i in range(m):
        of = slice(i * n // m, -(-(i + 1) * n // m))
        matrix[i, of] = 1 / (of.stop - of.start)
    return matrix


def eesp(w, x, name, dilations, down=False):
    """Reduce, look at four distances, each added to the ones before it, and merge (Mehta and others, CVPR 2019, section 3.2)."""
    p = name + ".proj_1x1."
    reduced = w.prelu(w.norm(w.conv(x, p + "conv"), p + "bn"), p + "act")
    seen = []
    for i, d in enumerate(dilations):
        y = w.conv(reduced, f"{name}.spp_dw.{i}.conv", 2 if down else 1, d)
        seen.append(w.add(y, seen[-1]) if seen else y)
    y = w.prelu(w.norm(w.concat(*seen), name + ".br_after_cat.bn"), name + ".br_after_cat.act")
    y = w.norm(w.conv(y, name + ".conv_1x1_exp.conv"), name + ".conv_1x1_exp.bn")
    return y if down else w.prelu(w.add(y, x), name + ".module_act")


def halved(w, x, picture, name):
    """Half as high and wide: the mean beside what the block finds, and the picture of that size (section 3.3)."""
    y = w.concat(w.halve(x), eesp(w, x, name + ".eesp", (1, 2, 3, 4), down=True))
    while picture.height > y.height:
        picture = w.halve(picture)
    r = name + ".inp_reinf."
    seen = w.prelu(w.norm(w.conv(picture, r + "0.conv"), r + "0.bn"), r + "0.act")
    return w.prelu(w.add(y, w.norm(w.conv(seen, r + "1.conv"), r + "1.bn")), name + ".act")


def cbr(w, x, name):
    return w.prelu(w.norm(w.conv(x, name + ".cbr.0"), name + ".cbr.1"), name + ".cbr.2")


def pyramid(w, x, name):
    """What is seen at five sizes (section 4.3)."""
    x = cbr(w, x, name + ".projection_layer")
    seen = []
    for i, scale in enumerate(SCALES):
        height, width = max(math.ceil(x.height * scale), 5), max(math.ceil(x.width * scale), 5)
        to = w.pool if scale < 1 else w.resize
        back = w.resize if scale < 1 else w.pool
        y = w.conv(x if scale == 1 else to(x, height, width), f"{name}.stages.{i}")
        seen.append(y if scale == 1 else back(y, x.height, x.width))
    m = name + ".merge_layer."
    y = w.prelu(w.norm(w.concat(*seen), m + "0.br.0"), m + "0.br.1")
    y = w.conv(cbr(w, w.shuffle(y, len(SCALES)), m + "2"), m + "3")
    return w.prelu(w.norm(y, name + ".br.br.0"), name + ".br.br.1") if name + ".br.br.0.weight" in w.weights else y


def weighed(w, x, name):
    """Fewer channels, each of which counts by the mean of what there is."""
    mean = Map(w.node("GlobalAveragePool", x.name), x.channels, 1, 1)
    weights = w.node("Sigmoid", w.conv(mean, name + ".wt_layer.1").name)
    y = cbr(w, x, name + ".expansion_layer")
    return y._replace(name=w.node("Mul", y.name, weights))


def segment(w, picture):
    base = "base_net.level1."
    levels = [w.prelu(w.norm(w.conv(picture, base + "conv", 2), base + "bn"), base + "act")]
    for level in ("level2", "level3", "level4"):
        x = halved(w, levels[-1], picture, f"base_net.{level}_0")
        for i in range(BLOCKS.get(level, 0)):
            x = eesp(w, x, f"base_net.{level}.{i}", (1, 1, 2, 3) if level == "level4" else (1, 2, 3, 4))
        levels.append(x)
    y = pyramid(w, levels.pop(), "bu_dec_l1")
    for i in (2, 3, 4):
        y = w.resize(y, 2 * y.height, 2 * y.width)
        y = w.add(weighed(w, levels.pop(), f"merge_enc_dec_l{i}"), y)
        y = pyramid(w, w.prelu(w.norm(y, f"bu_br_l{i}.0"), f"bu_br_l{i}.1"), f"bu_dec_l{i}")
    return w.resize(y, picture.height, picture.width)


def differ(ours, path):
    """The greatest difference from another program's export, and that of the pixels whose class is the same."""
    as_it_is = onnxruntime.SessionOptions()
    as_it_is.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # exports of many nodes take minutes otherwise
    other = onnxruntime.InferenceSession(path, as_it_is)
    x = np.random.default_rng(1).random((1, 3, *ours.get_inputs()[0].shape[2:]), dtype=np.float32)
    normal = (x - MEAN.reshape(1, 3, 1, 1)) / DEVIATION.reshape(1, 3, 1, 1)
    want = other.run(None, {other.get_inputs()[0].name: normal.astype(np.float32)})[0]
    got = ours.run(None, {"image": 2 * x - 1})[0]
    assert got.shape == want.shape, (got.shape, want.shape)
    return float(np.abs(got - want).max()), float((got.argmax(1) == want.argmax(1)).mean())


def size(text):
    height, _, width = text.partition("x")
    if not (height.isdigit() and width.isdigit()) or int(height) % 16 or int(width) % 16 or not int(height) or not int(width):
        raise argparse.ArgumentTypeError(f"{text}: want HEIGHTxWIDTH, multiples of 16")
    return int(height), int(width)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--size", type=size, default="256x256")
    parser.add_argument("--against")
    args = parser.parse_args()
    model = Writer(torch.load(args.weights, map_location="cpu", weights_only=True)).model(*args.size)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    if args.against:
        worst, same = differ(session, args.against)
        print(f"greatest difference from {args.against}: {worst:.2g}; {100 * same:.3f} % of pixels of the same class")
        assert worst < 1e-2 and same > 0.999, "the two disagree"
    args.out.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, args.out)
    print(f"{args.out}: {args.out.stat().st_size} bytes, {len(model.graph.node)} nodes")


if __name__ == "__main__":
    main()
