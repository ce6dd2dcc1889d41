#!/usr/bin/env python3
"""Writes golden gradients of networks to their input, computed by JAX in float64.

    pip install jax numpy onnx
    tools/golden/dnn_gradient_golden.py ../shared/data/models/*.onnx > engine/dnn/gradient/testdata/golden.json

For each file: input element i is low + (high-low)*u(i), and z is the sum over the outputs, in their order, of
element times 2*u(k)-1, k counting on from one million. u is SplitMix64, in [0, 1). Written are z, the Euclidean
norm of dz/dinput, and some of its elements.
"""
import json
import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import numpy as np
import onnx
from onnx import helper, numpy_helper

jax.config.update("jax_enable_x64", True)

RANGES = {"yolox": (0, 255), "light_person": (0, 255), "road": (0, 255)}
SAMPLES = 64


def uniform(first, count):
    with np.errstate(over="ignore"):
        z = (np.arange(first, first + count, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) / 2.0**53


def pads(attrs, dims):
    p = attrs.get("pads", [0] * 2 * dims)
    assert attrs.get("auto_pad", b"NOTSET") in (b"NOTSET", b"VALID")
    return [(p[i], p[i + dims]) for i in range(dims)]


def conv(a, x, w, b=None):
    dims = w.ndim - 2
    y = jax.lax.conv_general_dilated(
        x, w, a.get("strides", [1] * dims), pads(a, dims), rhs_dilation=a.get("dilations", [1] * dims),
        feature_group_count=a.get("group", 1))
    return y if b is None else y + b.reshape([1, -1] + [1] * dims)


def pool(a, x, start, f):
    assert not a.get("ceil_mode") and not a.get("count_include_pad")
    dims = len(a["kernel_shape"])
    window, strides = [1, 1] + a["kernel_shape"], [1, 1] + a.get("strides", [1] * dims)
    return jax.lax.reduce_window(x, start, f, window, strides, [(0, 0), (0, 0)] + pads(a, dims))


def average_pool(a, x):
    return pool(a, x, 0.0, jax.lax.add) / pool(a, jnp.ones(x.shape), 0.0, jax.lax.add)


def resize_matrix(a, n, m, scale):
    """The matrix that makes m elements of n."""
    mode, where = a.get("mode", b"nearest"), a.get("coordinate_transformation_mode", b"half_pixel")
    o = np.arange(m)
    x = {b"half_pixel": (o + 0.5) / scale - 0.5, b"asymmetric": o / scale}[where]
    out = np.zeros((m, n))
    if mode == b"nearest":
        assert a.get("nearest_mode") == b"floor"
        out[o, np.clip(np.floor(x), 0, n - 1).astype(int)] = 1
        return out
    assert mode in (b"linear", b"bilinear")
    low = np.floor(x)
    for at, weight in ((low, 1 - (x - low)), (low + 1, x - low)):
        np.add.at(out, (o, np.clip(at, 0, n - 1).astype(int)), weight)
    return out


def resize(a, x, scales, sizes):
    for i, n in enumerate(x.shape):
        m = int(sizes[i]) if sizes is not None else int(np.floor(n * scales[i]))
        scale = m / n if sizes is not None else float(scales[i])
        if m != n or scale != 1:
            x = jnp.moveaxis(jnp.tensordot(resize_matrix(a, n, m, scale), x, (1, i)), 0, i)
    return x


def slices(a, x, starts=None, ends=None, axes=None, steps=None):
    starts, ends = (a["starts"], a["ends"]) if starts is None else (starts, ends)
    axes = a.get("axes", list(range(len(starts)))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    at = [slice(None)] * x.ndim
    for s, e, i, by in zip(starts, ends, axes, steps):
        at[int(i)] = slice(int(s), None if e < -10**9 else int(e), int(by))
    return x[tuple(at)]


def pad(a, x, p=None, value=None):
    p = a["pads"] if p is None else p
    return jnp.pad(x, [(int(p[i]), int(p[i + x.ndim])) for i in range(x.ndim)], mode=a.get("mode", b"constant").decode())


def reshape(a, x, shape):
    return x.reshape([x.shape[i] if d == 0 else int(d) for i, d in enumerate(shape)])


def softmax(a, x, opset):
    axis = a.get("axis", -1 if opset >= 13 else 1)
    if opset >= 13 or axis in (-1, x.ndim - 1):
        return jax.nn.softmax(x, axis)
    return jax.nn.softmax(x.reshape(int(np.prod(x.shape[:axis])), -1), 1).reshape(x.shape)


def batch_normalization(a, x, scale, bias, mean, var):
    shape = [1, -1] + [1] * (x.ndim - 2)
    scale = scale / np.sqrt(var + np.float32(a.get("epsilon", 1e-5)))
    return x * scale.reshape(shape) + (bias - mean * scale).reshape(shape)


def unsqueeze(a, x, axes=None):
    for i in sorted(int(i) for i in (a["axes"] if axes is None else axes)):
        x = np.expand_dims(x, i) if isinstance(x, np.ndarray) else jnp.expand_dims(x, i)
    return x


def numpy_or_jax(*xs):
    return np if all(isinstance(x, np.ndarray) for x in xs) else jnp


OPS = {
    "Add": lambda a, x, y: x + y, "Sub": lambda a, x, y: x - y, "Mul": lambda a, x, y: x * y,
    "Div": lambda a, x, y: x / y, "Exp": lambda a, x: jnp.exp(x), "Sigmoid": lambda a, x: jax.nn.sigmoid(x),
    "Relu": lambda a, x: jnp.maximum(x, 0), "Conv": conv, "AveragePool": average_pool,
    "MaxPool": lambda a, x: pool(a, x, -jnp.inf, jax.lax.max),
    "Concat": lambda a, *xs: numpy_or_jax(*xs).concatenate(xs, a["axis"]),
    "Gather": lambda a, x, i: numpy_or_jax(x).take(x, i, a.get("axis", 0)),
    "Transpose": lambda a, x: jnp.transpose(x, a["perm"]), "Reshape": reshape, "Unsqueeze": unsqueeze,
    "Shape": lambda a, x: np.array(x.shape, np.int64), "Slice": slices, "Pad": pad,
    "BatchNormalization": batch_normalization,
    "Clip": lambda a, x, low=None, high=None: jnp.clip(
        x, a.get("min") if low is None else low, a.get("max") if high is None else high),
}


def run(model, x):
    opset = model.opset_import[0].version
    have = {t.name: widen(numpy_helper.to_array(t)) for t in model.graph.initializer}
    have[inputs(model)[0].name] = x
    for n in model.graph.node:
        a = {i.name: helper.get_attribute_value(i) for i in n.attribute}
        given = [have[i] if i else None for i in n.input]
        if n.op_type == "Constant":
            y = widen(numpy_helper.to_array(a["value"]))
        elif n.op_type == "Upsample":
            a["coordinate_transformation_mode"], a["nearest_mode"] = b"asymmetric", b"floor"
            y = resize(a, given[0], given[1], None)
        elif n.op_type == "Resize":
            y = resize(a, given[0], given[2], given[3] if len(given) > 3 else None)
        elif n.op_type == "Softmax":
            y = softmax(a, given[0], opset)
        else:
            y = OPS[n.op_type](a, *given)
        have[n.output[0]] = y
    return [have[o.name] for o in model.graph.output]


def widen(x):
    return x.astype(np.float64) if x.dtype == np.float32 else x


def inputs(model):
    weights = {t.name for t in model.graph.initializer}
    return [i for i in model.graph.input if i.name not in weights]


def golden(path):
    model = onnx.load(path)
    name = os.path.basename(path)
    entry = inputs(model)[0]
    shape = [d.dim_value for d in entry.type.tensor_type.shape.dim]
    low, high = next((r for k, r in RANGES.items() if name.startswith(k)), (-1, 1))
    x = low + (high - low) * uniform(0, int(np.prod(shape))).reshape(shape)
    x = x.astype(np.float32).astype(np.float64)

    def z(x):
        total, first = 0.0, 10**6
        for y in run(model, x):
            seed = (2 * uniform(first, y.size) - 1).astype(np.float32).astype(np.float64)
            total += jnp.sum(y * seed.reshape(y.shape))
            first += y.size
        return total

    value, grad = jax.value_and_grad(z)(jnp.asarray(x))
    grad = np.asarray(grad).reshape(-1)
    at = [int(i) for i in np.floor(uniform(10**8, SAMPLES) * grad.size)]
    return {"model": name, "shape": shape, "low": low, "high": high, "z": float(value),
            "norm": float(np.linalg.norm(grad)), "at": at, "gradient": [float(grad[i]) for i in at]}


if __name__ == "__main__":
    print("[" + ",\n".join(json.dumps(golden(p)) for p in sys.argv[1:]) + "]")
