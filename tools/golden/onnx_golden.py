#!/usr/bin/env python3
"""Writes what ONNX Runtime computes, for the tests of engine/dnn.

    python3 -m venv build/onnx && build/onnx/bin/pip install -r tools/golden/onnx_requirements.txt
    build/onnx/bin/python tools/golden/onnx_golden.py ../shared/data/models engine/dnn/golden/testdata

models.json has samples of the outputs of each model of that directory: at the size of its file and, where its nodes
fit another, at that; for one frame, and for three of which each was computed alone. Input element i is low +
(high-low)*u(first+i), u being SplitMix64 in [0, 1), as float32. Of an output of n elements, sample j is element
floor(n*u(2000000+j)).

opsets.json has small models of old opsets, one for each meaning that has changed since, and all of their outputs.

    build/onnx/bin/python tools/golden/onnx_golden.py --architectures build/onnx_networks

writes the classifiers that the onnx package carries without weights (opset 9), with random ones (220 MB), and models.json
of them; `go test ./engine/dnn` then computes them too.
"""

import base64
import json
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

SAMPLES = 200
SECOND_INPUT = 10_000_000  # where the elements of a further input begin
SAMPLE_PLACES = 2_000_000


def uniform(first, count):
    with np.errstate(over="ignore"):
        z = (np.arange(first, first + count, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) / 2.0**53


def made(spec):
    """The tensor that an input's description says."""
    if "value" in spec:
        return np.array(spec["value"], dtype=np.int64)
    u = uniform(spec["first"], int(np.prod(spec["shape"])))
    return (spec["low"] + (spec["high"] - spec["low"]) * u).astype(np.float32).reshape(spec["shape"])


def image(name, low, high, *shape):
    return {"name": name, "shape": list(shape), "low": low, "high": high, "first": 0}


# Inputs of one frame, and the axes along which frames follow one another: of the inputs, then of the outputs.
MODELS = {
    "deeplab_v3_mnv2_257": [[image("sub_7", -1, 1, 1, 257, 257, 3)]],
    "face_rfb_320": [[image("input", -1, 1, 1, 3, 240, 320)]],
    "fastestdet_352": [[image("input.1", 0, 1, 1, 3, 352, 352)]],
    "light_person_192": [[image("images", 0, 255, 1, 3, 192, 192)], [image("images", 0, 255, 1, 3, 256, 160)]],
    "road_segmentation_adas_0001": [[image("data", 0, 255, 1, 512, 896, 3)]],
    "yolox_nano_416": [[image("images", 0, 255, 1, 3, 416, 416)], [image("images", 0, 255, 1, 3, 352, 640)]],
    "silero_vad_16k_op15": [
        [image("input", -1, 1, 1, 576), {"name": "state", "shape": [2, 1, 128], "low": -1, "high": 1, "first": SECOND_INPUT},
         {"name": "sr", "shape": [], "value": rate}] for rate in (16000,)
    ],
}
FRAME_AXES = {"state": 1, "stateN": 1}  # of others 0


def session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def resized(path, specs):
    """The model with its inputs declared to have these shapes, and nothing declared of what follows from them."""
    model = onnx.load(path)
    shapes = {s["name"]: s["shape"] for s in specs}
    for v in model.graph.input:
        if v.name in shapes:
            dims = v.type.tensor_type.shape.dim
            for d, size in zip(dims, shapes[v.name]):
                d.dim_value = size
    for v in model.graph.output:
        v.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    return model


def frames_of(specs, count):
    """Descriptions of so many frames at once, and the inputs of each."""
    many = []
    parts = [{} for _ in range(count)]
    for s in specs:
        s = dict(s)
        if "value" in s:
            for p in parts:
                p[s["name"]] = made(s)
        else:
            axis = FRAME_AXES.get(s["name"], 0)
            s["shape"] = list(s["shape"])
            s["shape"][axis] *= count
            for p, x in zip(parts, np.split(made(s), count, axis)):
                p[s["name"]] = x
        many.append(s)
    return many, parts


def sampled(name, x):
    places = np.floor(uniform(SAMPLE_PLACES, SAMPLES) * x.size).astype(np.int64)
    flat = x.reshape(-1)
    return {"name": name, "shape": list(x.shape), "least": float(flat.min()), "greatest": float(flat.max()),
            "samples": [float(f"{v:.8g}") for v in flat[places]]}


def model_cases(directory, models):
    for name, variants in models.items():
        path = directory / f"{name}.onnx"
        for specs in variants:
            run = session(resized(path, specs))
            names = [o.name for o in run.get_outputs()]
            for count in (1, 3):
                many, parts = frames_of(specs, count)
                results = [run.run(None, p) for p in parts]
                joined = [np.concatenate([r[i] for r in results], FRAME_AXES.get(n, 0)) for i, n in enumerate(names)]
                yield {"model": name, "inputs": many, "outputs": [sampled(n, x) for n, x in zip(names, joined)]}


def shaped(*shape):
    return {"name": "x", "shape": list(shape), "low": -2, "high": 2, "first": 0}


def old(name, opset, x, op, inputs=(), outs=1, output=0, typ=TensorProto.FLOAT, **attrs):
    """A model of one node that computes y of x and constants (None: an input that is not given)."""
    names, constants = ["x"], []
    for i, c in enumerate(inputs):
        if c is None:
            names.append("")
            continue
        names.append(f"c{i}")
        constants.append(numpy_helper.from_array(np.asarray(c), f"c{i}"))
    results = [("y" if i == output else f"y{i}") for i in range(outs)]
    node = helper.make_node(op, names, results, name="node", **attrs)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x["shape"])],
                              [helper.make_tensor_value_info("y", typ, None)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    y = session(model).run(None, {"x": made(x)})[0]
    return {"name": f"{name} ({op} of opset {opset})", "model": base64.b64encode(model.SerializeToString()).decode(), "input": x,
            "shape": list(y.shape), "values": [float(f"{v:.8g}") for v in y.astype(np.float64).reshape(-1)]}


def f32(*values):
    return np.array(values, dtype=np.float32)


def i64(*values):
    return np.array(values, dtype=np.int64)


def opset_cases():
    pixels = shaped(1, 2, 3, 4)
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        for axis in (0, 1, 2, -1):
            yield old(f"axis {axis}", 11, shaped(2, 3, 4), op, axis=axis)
        yield old("default axis", 9, shaped(2, 3, 4), op)
    for opset in (7, 10):
        yield old("bounds", opset, pixels, "Clip", min=-1.0, max=0.5)
    yield old("one bound", 9, pixels, "Clip", max=0.5)
    yield old("constant", 9, pixels, "Pad", pads=[0, 0, 1, 2, 0, 1, 0, 1], value=1.5)
    yield old("reflection", 10, pixels, "Pad", pads=[0, 0, 1, 2, 0, 0, 0, 1], mode="reflect")
    for op in ("ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"):
        yield old("axes", 11, pixels, op, axes=[1, 3], keepdims=0)
        yield old("all", 11, pixels, op)
    yield old("axes", 17, pixels, "ReduceMean", axes=[-1])
    yield old("nearest", 7, pixels, "Upsample", scales=[1.0, 1.0, 2.0, 2.5])
    yield old("nearest", 9, pixels, "Upsample", inputs=[f32(1, 1, 2, 3)])
    yield old("linear", 9, pixels, "Upsample", inputs=[f32(1, 1, 2, 2.5)], mode="linear")
    yield old("larger", 10, pixels, "Resize", inputs=[f32(1, 1, 1.7, 2.5)])
    yield old("smaller", 10, shaped(1, 1, 7, 8), "Resize", inputs=[f32(1, 1, 0.6, 0.5)])
    yield old("linear", 10, pixels, "Resize", inputs=[f32(1, 1, 2, 2.5)], mode="linear")
    yield old("linear, smaller", 10, shaped(1, 1, 7, 8), "Resize", inputs=[f32(1, 1, 0.6, 0.5)], mode="linear")
    yield old("TensorFlow's", 11, pixels, "Resize", inputs=[f32(), f32(), i64(1, 2, 5, 7)], nearest_mode="floor",
              coordinate_transformation_mode="tf_half_pixel_for_nn")
    for mode in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"):
        for kind in ("nearest", "linear", "cubic"):
            # By 1.5, ONNX's own tests stretch the corners to a length of 4.5, and ONNX Runtime to one of 4.
            scales = f32(1, 1, 3, 2) if mode == "align_corners" else f32(1, 1, 1.5, 2)
            yield old(f"{mode}, {kind}", 11, pixels, "Resize", inputs=[f32(), scales], mode=kind, coordinate_transformation_mode=mode)
    yield old("attributes", 9, pixels, "Slice", starts=[1, -3], ends=[9, -1], axes=[1, 3])
    yield old("no axes", 7, pixels, "Slice", starts=[0, 1], ends=[1, 2])
    yield old("sizes", 11, pixels, "Split", outs=2, output=1, axis=3, split=[1, 3])
    yield old("equal", 12, pixels, "Split", outs=2, output=1, axis=3)
    yield old("equal", 13, pixels, "Split", outs=2, output=1, axis=3)
    yield old("axes", 11, pixels, "Squeeze", axes=[0])
    yield old("all", 9, shaped(1, 3, 1), "Squeeze")
    yield old("axes", 11, pixels, "Unsqueeze", axes=[0, 4])
    yield old("attribute", 9, shaped(3, 5), "TopK", outs=2, k=2)
    yield old("indices", 9, shaped(3, 5), "TopK", outs=2, output=1, k=2, axis=0, typ=TensorProto.INT64)
    yield old("ratio", 7, pixels, "Dropout", ratio=0.5)
    statistics = [f32(1, 2), f32(0.5, -1), f32(0.1, -0.2), f32(1.5, 0.7)]
    yield old("inference", 7, pixels, "BatchNormalization", inputs=statistics, epsilon=1e-3)
    yield old("inference", 9, pixels, "BatchNormalization", inputs=statistics)
    yield old("bilinear", 16, pixels, "GridSample", inputs=[(uniform(5, 12) * 2.4 - 1.2).astype(np.float32).reshape(1, 2, 3, 2)], mode="bilinear")
    yield old("bicubic", 16, pixels, "GridSample", inputs=[(uniform(5, 12) * 2 - 1).astype(np.float32).reshape(1, 2, 3, 2)], mode="bicubic")
    yield old("scales of groups", 18, shaped(1, 4, 3), "GroupNormalization", inputs=[f32(1, 2), f32(0.5, -1)], num_groups=2)
    yield old("no half pixel", 10, shaped(1, 1, 6, 6), "RoiAlign", inputs=[f32(0.3, 0.7, 4.6, 4.2).reshape(1, 4), i64(0)], output_height=2,
              output_width=3, sampling_ratio=2)
    yield old("renamed", 9, shaped(3, 3), "Scatter", inputs=[i64(2, 0, 1).reshape(1, 3), f32(7, 8, 9).reshape(1, 3)], axis=0)


def write(path, cases):
    lines = [json.dumps(c, separators=(",", ":")) for c in cases]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(f"{path}: {len(lines)} cases, {path.stat().st_size} bytes")


ARCHITECTURES = ["densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet"]


def architectures(out):
    """Writes classifiers whose constants, which the onnx package has as shapes, are random numbers."""
    out.mkdir(parents=True, exist_ok=True)
    data = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    random = np.random.default_rng(1)
    models = {}
    for name in ARCHITECTURES:
        model = onnx.load(data / f"light_{name}.onnx")
        graph = model.graph
        shapes = {t.name: numpy_helper.to_array(t).tolist() for t in graph.initializer}
        for n in [n for n in graph.node if n.op_type == "ConstantOfShape"]:
            shape = shapes[n.input[0]]
            x = random.standard_normal(shape)
            x = x * 1.4 / np.sqrt(np.prod(shape[1:])) if len(shape) > 1 else np.abs(x) * 0.2 + 0.5
            graph.initializer.append(numpy_helper.from_array(x.astype(np.float32), n.output[0]))
            graph.node.remove(n)
        read = {i for n in graph.node for i in n.input}
        for kept in (graph.initializer, graph.input):
            for t in [t for t in kept if t.name not in read]:
                kept.remove(t)
        constants = {t.name for t in graph.initializer}
        pixels = next(v for v in graph.input if v.name not in constants)
        onnx.save(model, out / f"{name}.onnx")
        models[name] = [[image(pixels.name, -1, 1, *(d.dim_value for d in pixels.type.tensor_type.shape.dim))]]
    write(out / "models.json", list(model_cases(out, models)))


def main():
    if sys.argv[1] == "--architectures":
        architectures(pathlib.Path(sys.argv[2]))
        return
    models, out = (pathlib.Path(a) for a in sys.argv[1:3])
    write(out / "opsets.json", list(opset_cases()))
    write(out / "models.json", list(model_cases(models, MODELS)))


if __name__ == "__main__":
    main()
