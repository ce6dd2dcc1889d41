"""What the scripts that train small networks of convolutions share: steps of AdamW, and a graph of ONNX.

Scripts in directories beside this file put its own in sys.path.
"""

import time

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn


def fit(net, loss, steps, rate, decay, clip):
    """Trains a network in so many steps by a schedule of one cycle; loss() draws a batch and is what is made less."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, steps, pct_start=0.1)
    began, mean = time.time(), 0.0
    for step in range(steps):
        now = loss()
        optimizer.zero_grad()
        now.backward()
        nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()
        schedule.step()
        mean = mean * 0.96 + now.item() * 0.04
        if step % 50 == 49:
            print(f"step {step + 1} of {steps}: loss {mean:.3f}, {time.time() - began:.0f} s", flush=True)
    return net.eval()


class Graph:
    """A graph of ONNX that grows node by node. Names of what nodes compute are what its methods take and return."""

    def __init__(self):
        self.nodes, self.weights = [], []

    def constant(self, value):
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(value), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def node(self, op, inputs, output=None, **attributes):
        """A node of one output, or of a list of them."""
        output = output or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output] if isinstance(output, str) else output, **attributes))
        return output

    def conv(self, x, layer, norm=None, output=None):
        """A convolution, with the normalisation behind it folded into it."""
        weight = layer.weight.detach()
        bias = layer.bias.detach() if layer.bias is not None else torch.zeros(len(weight))
        if norm:
            scale = norm.weight.detach() / (norm.running_var + norm.eps).sqrt()
            weight, bias = weight * scale[:, None, None, None], norm.bias.detach() - norm.running_mean * scale
        return self.node("Conv", [x, self.constant(weight.numpy()), self.constant(bias.numpy())], output, pads=list(layer.padding) * 2,
                         strides=list(layer.stride), dilations=list(layer.dilation), kernel_shape=list(layer.kernel_size))

    def save(self, path, name, inputs, outputs, **about):
        """Writes the graph. Inputs and outputs are shapes of float32 by name; about is the model's."""
        def values(shapes):
            return [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in shapes.items()]

        graph = helper.make_graph(self.nodes, name, values(inputs), values(outputs), self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, **about)
        onnx.checker.check_model(model)
        onnx.save(model, path)
