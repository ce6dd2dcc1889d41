"""Makes a network that hears digits in a waveform of digits.onnx, which sees them in a spectrogram, for `pipeline: speech`.

    python tools/train/audio/waveform.py

Needs numpy and onnx. Before the network come its spectrogram, as two convolutions, and a peak of 0.4; behind it each step says one of ten
digits or, unless it is the likeliest one within 160 ms, nothing (CTC's blank). Writes engine/speech/testdata/digits: the network, its alphabet and
its rate.
"""

import json
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).parents[3]
RATE, HOP, WINDOW, BANDS = 8000, 80, 256, 32  # as train.py has them
DIGITS, NEAR = 10, 4  # NEAR: steps
FLOOR, PEAK, SILENCE, LEAST = 1e-5, 0.4, 0.01, 0.5


def mel(f):
    return 2595 * np.log10(1 + f / 700)


def filters():
    edges = np.linspace(mel(60), mel(4000), BANDS + 2)
    at = mel(np.arange(WINDOW // 2 + 1) * RATE / WINDOW)
    up = (at - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - at) / (edges[2:] - edges[1:-1])[:, None]
    return np.maximum(0, np.minimum(up, down))


def transform():
    """Of a frame to real and imaginary parts."""
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
    angle = 2 * np.pi * np.outer(np.arange(WINDOW // 2 + 1), np.arange(WINDOW)) / WINDOW
    return np.concatenate([np.cos(angle) * hann, np.sin(angle) * hann]) / (WINDOW / 4)


class Builder:
    def __init__(self):
        self.nodes, self.constants = [], []

    def const(self, value, kind=np.float32):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def op(self, kind, *inputs, out=None, **attributes):
        out = out or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [out], **attributes))
        return out


def main():
    inner = onnx.load(ROOT / "videoext/pipeline/audio/digits.onnx")
    b = Builder()
    loudest = b.op("ReduceMax", b.op("Abs", "waveform"), axes=[1], keepdims=1)
    sound = b.op("Mul", b.op("Div", "waveform", b.op("Max", loudest, b.const([[SILENCE]]))), b.const([[PEAK]]))
    sound = b.op("Unsqueeze", sound, b.const([1], np.int64))
    weights = b.op("Cast", b.const(transform()[:, None], np.float16), to=TensorProto.FLOAT)
    edge = WINDOW // 2 - HOP // 2
    parts = b.op("Conv", sound, weights, pads=[edge, edge], strides=[HOP])
    bands = b.op("Conv", b.op("Mul", parts, parts), b.const(np.concatenate([filters()] * 2, 1)[:, :, None]))
    level = b.op("Log", b.op("Mul", b.op("Add", bands, b.const([FLOOR])), b.const([1 / FLOOR])))
    b.op("Unsqueeze", b.op("Div", level, b.const([4])), b.const([1], np.int64), out="spectrogram")
    b.nodes += inner.graph.node
    likely = b.op("Slice", "digits", b.const([0], np.int64), b.const([DIGITS], np.int64), b.const([1], np.int64))
    best = b.op("ReduceMax", likely, axes=[1], keepdims=1)
    around = b.op("MaxPool", best, kernel_shape=[1, 2 * NEAR + 1], pads=[0, NEAR, 0, NEAR])
    peak = b.op("Cast", b.op("Equal", best, around), to=TensorProto.FLOAT)
    blank = b.op("Add", b.op("Mul", best, b.const([0])), b.const([LEAST]))
    symbols = b.op("Concat", b.op("Mul", likely, peak), blank, axis=1)
    b.op("Transpose", b.op("Squeeze", symbols, b.const([2], np.int64)), perm=[0, 2, 1], out="symbols")
    graph = helper.make_graph(
        b.nodes, "spoken digits", [helper.make_tensor_value_info("waveform", TensorProto.FLOAT, [1, "samples"])],
        [helper.make_tensor_value_info("symbols", TensorProto.FLOAT, [1, "steps", DIGITS + 1])], b.constants + list(inner.graph.initializer))
    model = helper.make_model(graph, opset_imports=inner.opset_import, ir_version=inner.ir_version,
                              producer_name="tools/train/audio/waveform.py", doc_string=inner.doc_string)
    onnx.checker.check_model(model)
    to = ROOT / "engine/speech/testdata/digits"
    to.mkdir(parents=True, exist_ok=True)
    onnx.save(model, to / "digits.onnx")
    (to / "alphabet.txt").write_text("".join(f"{d}\n" for d in range(DIGITS)) + "<blank>\n")
    (to / "preprocessor_config.json").write_text(json.dumps({"sampling_rate": RATE, "do_normalize": False}) + "\n")


if __name__ == "__main__":
    main()
