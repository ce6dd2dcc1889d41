#!/usr/bin/env python3
"""Writes what ONNX Runtime makes of numbers at the edges of their types, for the tests of engine/dnn.

    build/onnx/bin/python tools/golden/onnx_edges.py engine/dnn/golden/testdata/edges.json.gz

(the environment is that of tools/golden/onnx_golden.py). Each case is a model of a node or a few, inputs and outputs: for every
operation that computes or moves single elements, and for every type that ONNX Runtime takes there. Inputs are NaN,
infinities, zeros of both signs, numbers below the normal range and beyond FP16, and the least and greatest integers.
What C leaves undefined is left out: integers divided by 0, sums of integers that overflow, and floats cast to integers
that do not have them. So are maxima with NaN: what ONNX Runtime makes of them depends on the place of the NaN. It also
leaves casts between FP32 and FP16 out beside operations that it computes in FP32, so that these have no case.
"""

import base64
import gzip
import json
import sys

import ml_dtypes
import numpy as np
import onnxruntime
from onnx import TensorProto as T
from onnx import helper

onnxruntime.set_default_logger_severity(4)

TYPES = {
    T.FLOAT: np.float32, T.FLOAT16: np.float16, T.BFLOAT16: ml_dtypes.bfloat16, T.DOUBLE: np.float64, T.BOOL: np.bool_,
    T.INT8: np.int8, T.INT16: np.int16, T.INT32: np.int32, T.INT64: np.int64,
    T.UINT8: np.uint8, T.UINT16: np.uint16, T.UINT32: np.uint32, T.UINT64: np.uint64,
}
FLOATS = [T.FLOAT, T.FLOAT16, T.BFLOAT16, T.DOUBLE]
INTS = [t for t in TYPES if t not in FLOATS and t != T.BOOL]
NUMBERS = FLOATS + INTS

EDGES = [np.nan, np.inf, -np.inf, -0.0, 0, 1e-42, -1e-42, 1e-8, 6e-8, 1e-38, 65504, 65519, 65520, 70000, -70000, 1e38, -1e38, 3.4e38, 0.5, -0.5,
         1.5, 2.5, -2.5, 0.1, -0.1, 1, -1, 3e9, -3e9, 1e20, 255.7, -1.2, 7, 11, 88.8, -104]
FEW = [np.nan, np.inf, -np.inf, -0.0, 0, 1e-42, 70000, -1e38, 3.4e38, 0.5, -2.5, 1, -1, 7]


def edges(t, few=False):
    kind = TYPES[t]
    with np.errstate(all="ignore"):
        if t in FLOATS:
            return np.array(FEW if few else EDGES, np.float64).astype(kind)
        if t == T.BOOL:
            return np.array([False, True])
        info = np.iinfo(kind)
        v = {info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 7} | ({-1, -7} if info.min < 0 else set())
        return np.array(sorted(v), kind)


def pairs(t):
    a, b = np.meshgrid(edges(t, True), edges(t, True))
    return a.reshape(-1), b.reshape(-1)


cases, refused = [], 0


def raw(x):
    return base64.b64encode(np.ascontiguousarray(x).tobytes()).decode()


def case(name, nodes, inputs, outputs=None, constants=(), opset=21):
    """Adds a case of nodes that compute "y" of "a", "b" and so on; ONNX Runtime says of what type."""
    global refused
    names = [chr(ord("a") + i) for i in range(len(inputs))]
    outputs = outputs or ["y"]
    types = {v: k for k, v in ((k, np.dtype(v)) for k, v in TYPES.items())}
    given = [helper.make_tensor_value_info(n, types[x.dtype], x.shape) for n, x in zip(names, inputs)]
    held = [helper.make_tensor(n, types[x.dtype], x.shape, x.tobytes(), raw=True) for n, x in constants]

    def model(nodes, outputs):
        graph = helper.make_graph(nodes, "g", given, [helper.make_empty_tensor_value_info(o) for o in outputs], held)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10).SerializeToString()

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model(nodes, outputs), options, providers=["CPUExecutionProvider"])
        brains = [o.name for o in session.get_outputs() if o.type == "tensor(bfloat16)"]
        if brains:  # which numpy does not have: as FP32, whose upper half they are
            session = onnxruntime.InferenceSession(
                model(nodes + [op("Cast", o, outs=[o + "32"], to=T.FLOAT) for o in brains], [o + "32" if o in brains else o for o in outputs]),
                options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        for n, x in zip(names, inputs):
            bits = x.view(np.uint16) if x.dtype == ml_dtypes.bfloat16 else x
            binding.bind_ortvalue_input(n, onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, types[x.dtype]))
        for o in session.get_outputs():
            binding.bind_output(o.name)
        session.run_with_iobinding(binding)
        got = []
        for o, v in zip(outputs, binding.get_outputs()):
            t, x = v.element_type(), v.numpy()
            if o in brains:
                t, x = T.BFLOAT16, (x.view(np.uint32) >> 16).astype(np.uint16)
            got.append({"type": t, "shape": list(x.shape), "data": raw(x)})
    except Exception as e:  # a type that ONNX Runtime does not take
        refused += 1
        if "--why" in sys.argv:
            print(name, str(e)[:150].replace("\n", " "))
        return
    cases.append({"name": name, "model": base64.b64encode(model(nodes, outputs)).decode(), "inputs": [raw(x) for x in inputs], "outputs": got})


def op(name, *ins, outs=("y",), **attrs):
    return helper.make_node(name, list(ins), list(outs), **attrs)


def label(t):
    return T.DataType.Name(t)


def each(names, types, inputs, suffix="", **attrs):
    for name in names:
        for t in types:
            x = inputs(t)
            case(f"{name}{suffix} {label(t)}", [op(name, *[chr(ord("a") + i) for i in range(len(x))], **attrs)], x)


def grid(t, rows):
    """All edges in rows, each beside other ones."""
    v = edges(t)
    return np.array([[v[(i * 5 + j * 7) % len(v)] for j in range(rows)] for i in range(len(v))], TYPES[t])


def numbered(t, rows):
    """Those rows of edges that are without NaN."""
    x = grid(t, rows)
    return x[~np.isnan(x.astype(np.float64)).any(axis=1)]


def main():
    one = lambda t: [edges(t)]
    each("Abs Neg Sign Relu".split(), NUMBERS, one)
    each("Sqrt Exp Log Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Erf Floor Ceil Round Reciprocal Sigmoid Softplus Softsign Mish "
         "HardSwish Gelu LeakyRelu Elu Celu Selu HardSigmoid ThresholdedRelu IsNaN IsInf".split(), FLOATS, one)
    each(["Gelu"], FLOATS, one, " tanh", approximate="tanh")
    each(["LeakyRelu"], FLOATS, one, " of 2", alpha=2.0)
    each(["Shrink"], NUMBERS, one, bias=0.5)
    each(["IsInf"], FLOATS, one, " below", detect_positive=0)
    each(["Identity"], TYPES, one)
    each(["Not"], [T.BOOL], one)
    each(["BitwiseNot"], INTS, one)

    each("Add Sub Mul Max Min Pow PRelu Equal Less LessOrEqual Greater GreaterOrEqual".split(), NUMBERS, pairs)
    each(["Div"], FLOATS, pairs)
    each(["Mod"], FLOATS, pairs, " like C", fmod=1)

    def divisible(t):
        a, b = pairs(t)
        keep = (b != 0) & ~((a == np.iinfo(TYPES[t]).min) & (b.astype(np.float64) == -1))
        return [a[keep], b[keep]]

    each(["Div", "Mod"], INTS, divisible)
    each(["Mod"], INTS, divisible, " like C", fmod=1)
    each("And Or Xor Equal".split(), [T.BOOL], pairs)
    each("BitwiseAnd BitwiseOr BitwiseXor".split(), INTS, pairs)
    for direction in "LEFT", "RIGHT":
        each(["BitShift"], [T.UINT8, T.UINT32, T.UINT64], lambda t: [edges(t), np.full(edges(t).shape, 3, TYPES[t])], " " + direction, direction=direction)
    each("Sum Mean".split(), FLOATS, lambda t: [*pairs(t), np.roll(pairs(t)[0], 5)])
    each("Max Min".split(), NUMBERS, lambda t: [*pairs(t), np.roll(pairs(t)[0], 5)], " of three")
    for t in TYPES:
        a, b = pairs(t)
        case(f"Where {label(t)}", [op("Where", "a", "b", "c")], [np.arange(a.size) % 3 == 0, a, b])
    for t in NUMBERS:
        low, high = (np.array(v, TYPES[t]) for v in ((-2, 6) if t in FLOATS or np.iinfo(TYPES[t]).min < 0 else (2, 6)))
        case(f"Clip {label(t)}", [op("Clip", "a", "low", "high")], one(t), constants=[("low", low), ("high", high)])

    # Casts, and there and back.
    for t in TYPES:
        for to in TYPES:
            x = edges(t)
            if t in FLOATS and to in INTS:
                with np.errstate(all="ignore"):
                    whole = np.trunc(x.astype(np.float64))
                    info = np.iinfo(TYPES[to])
                    x = x[(whole >= info.min) & (whole < float(info.max))]
            case(f"Cast {label(t)} {label(to)}", [op("Cast", "a", to=to)], [x])
            if t in FLOATS and to in FLOATS:
                case(f"Cast {label(t)} {label(to)} and back", [op("Cast", "a", outs=["m"], to=to), op("Cast", "m", to=t)], [x])
    for to in T.FLOAT16, T.BFLOAT16:
        there = op("Cast", "a", outs=["m"], to=to)
        case(f"IsInf of Cast FLOAT {label(to)}", [there, op("Cast", "m", outs=["f"], to=T.FLOAT), op("IsInf", "f")], [edges(T.FLOAT)])

    rows = lambda t: [grid(t, 4)]
    for name in "Sum Mean Max Min Prod L1 L2 LogSum LogSumExp SumSquare".split():
        for t in FLOATS + ([T.INT32, T.INT64] if name != "LogSum" else []):
            x = grid(t, 4) if name not in ("Max", "Min") else numbered(t, 4)
            if t not in FLOATS and name not in ("Max", "Min"):
                x = np.clip(x, -7, 7)
            case(f"Reduce{name} {label(t)}", [op("Reduce" + name, "a", "axes")], [x], constants=[("axes", np.array([1], np.int64))])
    each(["Softmax"], FLOATS, rows, axis=1)
    each(["LogSoftmax"], FLOATS, lambda t: [np.clip(numbered(t, 4), TYPES[t](-104), TYPES[t](104))], axis=1)
    each("Hardmax ArgMax ArgMin".split(), NUMBERS, lambda t: [numbered(t, 4)], axis=1)
    each(["NonZero"], [T.BOOL, T.FLOAT, T.INT32, T.INT64, T.UINT8], rows)
    for t in T.FLOAT, T.FLOAT16:
        for to in T.INT8, T.UINT8:
            scale, zero = np.array(0.5, TYPES[t]), np.array(3, TYPES[to])
            x = edges(t)[np.abs(edges(t).astype(np.float64)) < 1e9]
            case(f"QuantizeLinear {label(t)} {label(to)}", [op("QuantizeLinear", "a", "s", "z")], [x], constants=[("s", scale), ("z", zero)])
            case(f"DequantizeLinear {label(to)} {label(t)}", [op("DequantizeLinear", "a", "s", "z")], [edges(to)], constants=[("s", scale), ("z", zero)])
    for t in FLOATS:
        x = edges(t).reshape(1, 1, -1)
        figures = [(n, np.full(1, v, TYPES[t])) for n, v in (("s", 2), ("h", 1), ("m", 0.5), ("v", 4))]
        case(f"BatchNormalization {label(t)}", [op("BatchNormalization", "a", *[n for n, _ in figures])], [x], constants=figures)
    for t in NUMBERS:
        case(f"CumSum {label(t)}", [op("CumSum", "a", "axis")], rows(t), constants=[("axis", np.array(1, np.int64))])
        case(f"TopK {label(t)}", [op("TopK", "a", "k", outs=["y", "i"])], [numbered(t, 4)], constants=[("k", np.array([2], np.int64))])

    integers = lambda *v: np.array(v, np.int64)
    for t in TYPES:
        x = grid(t, 4)
        move = lambda name, node, *constants: case(f"{name} {label(t)}", [node], [x], constants=constants)
        move("Transpose", op("Transpose", "a", perm=[1, 0]))
        move("Flatten", op("Flatten", "a", axis=0))
        move("Reshape", op("Reshape", "a", "s"), ("s", integers(-1)))
        move("Unsqueeze", op("Unsqueeze", "a", "s"), ("s", integers(0)))
        move("Slice", op("Slice", "a", "s", "e", "x", "d"), ("s", integers(3)), ("e", integers(-9)), ("x", integers(1)), ("d", integers(-1)))
        move("Expand", op("Expand", "a", "s"), ("s", integers(2, *x.shape)))
        move("Tile", op("Tile", "a", "s"), ("s", integers(1, 2)))
        move("Gather", op("Gather", "a", "s", axis=1), ("s", integers(3, 0)))
        move("GatherElements", op("GatherElements", "a", "s", axis=1), ("s", np.full((x.shape[0], 2), 2, np.int64)))
        move("Pad", op("Pad", "a", "s"), ("s", integers(0, 1, 0, 1)))
        case(f"Squeeze {label(t)}", [op("Squeeze", "a")], [x.reshape(1, -1, 1, 4)])
        case(f"Split {label(t)}", [op("Split", "a", outs=["y", "z"], axis=1, num_outputs=2)], [x], outputs=["y", "z"])
        case(f"CastLike {label(t)}", [op("CastLike", "a", "s")], [edges(T.FLOAT16)[3:9] if t in FLOATS else edges(T.UINT8)[:3]], constants=[("s", np.zeros(1, TYPES[t]))])
        move("GatherND", op("GatherND", "a", "s"), ("s", integers(1, 0).reshape(2, 1) % x.shape[0]))
        move("ScatterElements", op("ScatterElements", "a", "s", "a", axis=1), ("s", np.tile(np.arange(4)[::-1], (x.shape[0], 1)).astype(np.int64)))
        move("ScatterND", op("ScatterND", "a", "s", "a"), ("s", np.arange(x.shape[0], dtype=np.int64)[::-1].reshape(-1, 1).copy()))
        move("Compress", op("Compress", "a", "s", axis=1), ("s", np.array([True, False, True, True])))
        move("Concat", op("Concat", "a", "a", axis=1))
        move("Trilu", op("Trilu", "a"))
        case(f"DepthToSpace {label(t)}", [op("DepthToSpace", "a", blocksize=2)], [x.reshape(1, 4, x.shape[0], 1)])
        case(f"SpaceToDepth {label(t)}", [op("SpaceToDepth", "a", blocksize=2)], [x.reshape(1, 1, x.shape[0] * 2, 2)])
    for t in FLOATS:
        x = numbered(t, 4)[:12].reshape(1, 1, -1, 4)
        for name, attrs in {"MaxPool": {"kernel_shape": [2, 2]}, "AveragePool": {"kernel_shape": [2, 2]}, "GlobalMaxPool": {}, "GlobalAveragePool": {}}.items():
            case(f"{name} {label(t)}", [op(name, "a", **attrs)], [x if "Global" not in name else x.reshape(1, -1, 2, 2)])
        two = np.full((1, 1), 2, TYPES[t])
        case(f"MatMul {label(t)}", [op("MatMul", "a", "w")], [edges(t).reshape(-1, 1)], constants=[("w", two)])
        case(f"MatMul of two {label(t)}", [op("MatMul", "a", "b")], [edges(t).reshape(-1, 1), two])
        case(f"Gemm {label(t)}", [op("Gemm", "a", "w")], [edges(t).reshape(-1, 1)], constants=[("w", two)])
        case(f"Conv {label(t)}", [op("Conv", "a", "w")], [edges(t).reshape(1, 1, -1, 1)], constants=[("w", two.reshape(1, 1, 1, 1))])

    path = [a for a in sys.argv[1:] if not a.startswith("-")][0]
    with gzip.GzipFile(path, "wb", mtime=0) as f:
        f.write(json.dumps({"onnxruntime": onnxruntime.__version__, "cases": cases}, separators=(",", ":")).encode())
    print(f"{len(cases)} cases of ONNX Runtime {onnxruntime.__version__}; {refused} that it does not take")


if __name__ == "__main__":
    main()
