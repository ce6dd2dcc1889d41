#!/usr/bin/env python3
"""Writes golden gradients of networks to their input and weights, computed by PyTorch's autograd in float64.

    pip install torch numpy onnx
    tools/peers/dnn_gradient_torch.py ../shared/data/models/{yolox,face_rfb,road,light,fastestdet}*.onnx > engine/dnn/gradient/testdata/torch.json

What is written is what dnn_gradient_golden.py writes with JAX and, of each weight, bias, scale and shift, the norm and a few elements. It takes two gigabytes of wheels, but no GPU.
"""
import json
import os
import sys

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper

RANGES = {"yolox": (0, 255), "light_person": (0, 255), "road": (0, 255)}
SAMPLES, WEIGHT_SAMPLES = 64, 2
WEIGHTED = {"Conv": (1, 2), "Gemm": (1, 2), "MatMul": (1,), "BatchNormalization": (1, 2)}  # operations, and their inputs that are weights


def uniform(first, count):
    with np.errstate(over="ignore"):
        z = (np.arange(first, first + count, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) / 2.0**53


def integers(x):
    return [int(i) for i in x]


def padded(a, x, value):
    """x with the padding of a convolution or pool around it."""
    assert a.get("auto_pad", b"NOTSET") in (b"NOTSET", b"VALID") and not a.get("ceil_mode") and not a.get("count_include_pad")
    p = a.get("pads", [0, 0, 0, 0])
    return F.pad(x, (p[1], p[3], p[0], p[2]), value=value)


def conv(a, x, w, b=None):
    return F.conv2d(padded(a, x, 0), w, b, a.get("strides", 1), 0, a.get("dilations", 1), a.get("group", 1))


def max_pool(a, x):
    return F.max_pool2d(padded(a, x, -torch.inf), a["kernel_shape"], a.get("strides", 1))


def average_pool(a, x):
    def sums(x):
        return F.avg_pool2d(padded(a, x, 0), a["kernel_shape"], a.get("strides", 1))
    return sums(x) / sums(torch.ones_like(x))


def resize(a, x, roi=None, scales=None, sizes=None):
    mode, where = a.get("mode", b"nearest"), a.get("coordinate_transformation_mode", b"half_pixel")
    for i, n in enumerate(x.shape):
        m = int(sizes[i]) if sizes is not None else int(np.floor(n * float(scales[i])))
        scale = m / n if sizes is not None else float(scales[i])
        if m == n:
            continue
        o = np.arange(m)
        at = {b"half_pixel": (o + 0.5) / scale - 0.5, b"asymmetric": o / scale,
              b"pytorch_half_pixel": (o + 0.5) / scale - 0.5 if m > 1 else 0 * o,
              b"align_corners": o * (n - 1) / max(1, m - 1)}[where]
        matrix = np.zeros((m, n))
        if mode == b"nearest":
            assert a.get("nearest_mode") == b"floor"
            matrix[o, np.clip(np.floor(at), 0, n - 1).astype(int)] = 1
        else:
            assert mode == b"linear"
            low = np.floor(at)
            for place, weight in ((low, 1 - (at - low)), (low + 1, at - low)):
                np.add.at(matrix, (o, np.clip(place, 0, n - 1).astype(int)), weight)
        x = torch.movedim(torch.tensordot(torch.from_numpy(matrix), x, ([1], [i])), 0, i)
    return x


def slices(a, x, starts=None, ends=None, axes=None, steps=None):
    starts, ends = (a["starts"], a["ends"]) if starts is None else (starts, ends)
    axes = a.get("axes", list(range(len(starts)))) if axes is None else axes
    at = [slice(None)] * x.dim()
    for k, (s, e, i) in enumerate(zip(integers(starts), integers(ends), integers(axes))):
        at[i] = slice(s, None if e < -10**9 else e, 1 if steps is None else int(steps[k]))
    return x[tuple(at)]


def pad(a, x, p=None, value=None):
    p = integers(a["pads"] if p is None else p)
    around = [n for i in reversed(range(x.dim())) for n in (p[i], p[i + x.dim()])]
    return F.pad(x, around, value=0 if value is None else float(value))


def reshape(a, x, shape):
    return x.reshape([x.shape[i] if d == 0 else d for i, d in enumerate(integers(shape))])


def unsqueeze(a, x, axes=None):
    for i in sorted(integers(a["axes"] if axes is None else axes)):
        x = x.unsqueeze(i)
    return x


def softmax(a, x, opset):
    axis = a.get("axis", -1 if opset >= 13 else 1)
    if opset >= 13 or axis in (-1, x.dim() - 1):
        return torch.softmax(x, axis)
    return torch.softmax(x.reshape(int(np.prod(x.shape[:axis])), -1), 1).reshape(x.shape)


def batch_normalization(a, x, scale, bias, mean, var):
    # The sum of what is added to the variance is rounded as float32 has it.
    return F.batch_norm(x, mean, var, scale, bias, False, 0, float(np.float32(a.get("epsilon", 1e-5))))


OPS = {
    "Add": lambda a, x, y: x + y, "Sub": lambda a, x, y: x - y, "Mul": lambda a, x, y: x * y,
    "Div": lambda a, x, y: x / y, "Exp": lambda a, x: torch.exp(x), "Sigmoid": lambda a, x: torch.sigmoid(x),
    "Relu": lambda a, x: torch.relu(x), "Conv": conv, "AveragePool": average_pool, "MaxPool": max_pool, "Resize": resize,
    "Concat": lambda a, *xs: torch.cat(xs, a["axis"]),
    "Gather": lambda a, x, i: x[(slice(None),) * a.get("axis", 0) + (i,)],
    "Transpose": lambda a, x: x.permute(a["perm"]), "Reshape": reshape, "Unsqueeze": unsqueeze,
    "Shape": lambda a, x: torch.tensor(x.shape), "Slice": slices, "Pad": pad, "BatchNormalization": batch_normalization,
}


def tensor(x):
    return torch.from_numpy(np.array(x.astype(np.float64) if x.dtype == np.float32 else x))


def run(model, x, weights={}):
    have = {t.name: tensor(numpy_helper.to_array(t)) for t in model.graph.initializer} | weights
    have[inputs(model)[0].name] = x
    for n in model.graph.node:
        a = {i.name: helper.get_attribute_value(i) for i in n.attribute}
        given = [have[i] if i else None for i in n.input]
        if n.op_type == "Constant" and n.output[0] in weights:
            continue
        if n.op_type == "Constant":
            y = tensor(numpy_helper.to_array(a["value"]))
        elif n.op_type == "Softmax":
            y = softmax(a, given[0], model.opset_import[0].version)
        else:
            y = OPS[n.op_type](a, *given)
        have[n.output[0]] = y
    return [have[o.name] for o in model.graph.output]


def inputs(model):
    weights = {t.name for t in model.graph.initializer}
    return [i for i in model.graph.input if i.name not in weights]


def weights_of(model):
    """The constants that training would change, by name."""
    constants = {t.name: t for t in model.graph.initializer}
    for n in model.graph.node:
        if n.op_type == "Constant":
            constants[n.output[0]] = helper.get_attribute_value(n.attribute[0])
    names = [n.input[i] for n in model.graph.node for i in WEIGHTED.get(n.op_type, ()) if i < len(n.input)]
    return {i: tensor(numpy_helper.to_array(constants[i])).requires_grad_() for i in names if i in constants}


def sampled(grad, count):
    grad = grad.reshape(-1).numpy()
    at = [int(i) for i in np.floor(uniform(10**8, count) * grad.size)]
    return {"norm": float(np.linalg.norm(grad)), "at": at, "gradient": [float(grad[i]) for i in at]}


def rounded(sample):
    """As many digits as float32 is held to, and two more."""
    return sample | {"norm": float(f"{sample['norm']:.9g}"), "gradient": [float(f"{g:.9g}") for g in sample["gradient"]]}


def golden(path):
    model = onnx.load(path)
    name = os.path.basename(path)
    shape = [d.dim_value for d in inputs(model)[0].type.tensor_type.shape.dim]
    low, high = next((r for k, r in RANGES.items() if name.startswith(k)), (-1, 1))
    x = low + (high - low) * uniform(0, int(np.prod(shape))).reshape(shape)
    x = torch.from_numpy(x.astype(np.float32).astype(np.float64)).requires_grad_()
    total, first = torch.zeros((), dtype=torch.float64), 10**6
    weights = weights_of(model)
    for y in run(model, x, weights):
        seed = (2 * uniform(first, y.numel()) - 1).astype(np.float32).astype(np.float64)
        total = total + torch.sum(y * torch.from_numpy(seed.reshape(y.shape)))
        first += y.numel()
    total.backward()
    used = {name: w for name, w in weights.items() if w.grad is not None}
    return {"model": name, "shape": shape, "low": low, "high": high, "z": float(total.detach()), **sampled(x.grad, SAMPLES),
            "weights": [{"name": i, **rounded(sampled(w.grad, WEIGHT_SAMPLES))} for i, w in used.items()]}


if __name__ == "__main__":
    json.dump([golden(path) for path in sys.argv[1:]], sys.stdout)
    print()
