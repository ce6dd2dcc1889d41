"""Writes pixels.onnx: the mean of each channel of pictures of 32 x 48, and how much brighter than 100 each pixel is."""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

nodes = [
    helper.make_node("GlobalAveragePool", ["images"], ["pooled"]),
    helper.make_node("Flatten", ["pooled"], ["mean"], axis=1),
    helper.make_node("Sub", ["images", "hundred"], ["brighter"]),
    helper.make_node("Relu", ["brighter"], ["bright"]),
]
graph = helper.make_graph(
    nodes, "pixels",
    [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, 32, 48])],
    [helper.make_tensor_value_info("mean", TensorProto.FLOAT, ["batch", 3]),
     helper.make_tensor_value_info("bright", TensorProto.FLOAT, ["batch", 3, 32, 48])],
    [numpy_helper.from_array(np.array(100, np.float32), "hundred")])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
onnx.checker.check_model(model)
onnx.save(model, sys.argv[1])
