"""Small ONNX files, written without a library, and requests of the Open Inference Protocol to what serves them."""

import array
import json
import pathlib
import struct


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, value):
    """A field of a protobuf message: an integer, or text or a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def value_info(name, dims):
    shape = b"".join(field(1, field(2, d) if isinstance(d, str) else field(1, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))


def node(op, read, written):
    return field(1, b"".join(field(1, r) for r in read) + field(2, written) + field(4, op))


SHAPE = (3, 64, 64)
ELEMENTS = 3 * 64 * 64


def write(path, depth=1):
    """Writes a network that doubles pictures of SHAPE, by additions of itself, each halved again but the first."""
    half = field(1, 1) + field(2, 1) + field(8, "half") + field(9, struct.pack("<f", 0.5))
    nodes, last = [node("Add", ["image", "image"], "d0")], "d0"
    for i in range(1, depth):
        nodes += node("Add", [last, last], f"s{i}"), node("Mul", [f"s{i}", "half"], f"d{i}")
        last = f"d{i}"
    nodes.append(node("Identity", [last], "double"))
    dims = ["n", *SHAPE]
    graph = b"".join(nodes) + field(2, "g") + field(5, half) + field(11, value_info("image", dims)) + field(12, value_info("double", dims))
    pathlib.Path(path).write_bytes(field(1, 8) + field(7, graph) + field(8, field(2, 17)))
    return path


def binary(values, **parameters):
    """(body, headers) of a frame as binary data."""
    head = json.dumps({
        "inputs": [{"name": "image", "datatype": "FP32", "shape": [1, *SHAPE], "parameters": {"binary_data_size": len(values)}}],
        "parameters": {"binary_data_output": True, **parameters},
    }).encode()
    return head + values, {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"}


def frame(seed):
    """The values of a frame, and of its answer."""
    values = array.array("f", ((seed + i) % 251 for i in range(ELEMENTS)))
    return values.tobytes(), array.array("f", (2 * v for v in values)).tobytes()


def infer(server, model, seed=1, timeout=60, **parameters):
    """(status, whether the answer is right or the message) of a frame."""
    values, want = frame(seed)
    body, headers = binary(values, **parameters)
    status, answer = server.request("POST", f"/v2/models/{model}/infer", body, timeout, headers)
    return status, answer.endswith(want) if status == 200 else answer[:300].decode(errors="replace")
