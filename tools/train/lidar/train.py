"""Trains the pillar network on simulated sweeps and writes videoext/pipeline/lidar/network.onnx.

    python tools/train/lidar/train.py

Needs torch, numpy, onnx and Go. One run takes about ten minutes on one core. Seeded; the order of sums in other versions changes
the last digits. Streets of seeds 100 to 163 are trained on; the test of videoext/pipeline/lidar tells how good it is on others.
"""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

ROOT = pathlib.Path(__file__).parents[3]
sys.path.append(str(ROOT / "tools" / "train"))
from training import Graph, fit  # noqa: E402

SIDE, CELLS, SLICES, STRIDE = 64.0, 128, 6, 2  # as videoext/pipeline/lidar has them
PLACES = CELLS // STRIDE
WIDTH = 24
SWEEPS, STEPS, BATCH = 24, 900, 8
LEAST, NONE = 5, 0.5  # points of a car that is to be found, and below how many there is nothing to see


def sweeps(binary, first, streets):
    """Pairs of what is not 0 in pillars, and cars [n, 6]: x, y, length, width, yaw, points."""
    raw = subprocess.run([binary, "lidar", "-first", str(first), "-streets", str(streets), "-sweeps", str(SWEEPS), "-apart", "1300ms", "-thin"],
                         check=True, capture_output=True).stdout
    all, at = [], 0
    while at < len(raw):
        n = int(np.frombuffer(raw, "<u4", 1, at)[0])
        places, values = np.frombuffer(raw, "<u4", n, at + 4).astype(np.int64), np.frombuffer(raw, "<f4", n, at + 4 + 4 * n)
        at += 4 + 8 * n
        cars = int(np.frombuffer(raw, "<u4", 1, at)[0])
        all.append((places, values, np.frombuffer(raw, "<f4", 6 * cars, at + 4).reshape(cars, 6)))
        at += 4 + 24 * cars
    return all


class Block(nn.Module):
    def __init__(self, dilation):
        super().__init__()
        self.conv = nn.Conv2d(WIDTH, WIDTH, 3, padding=dilation, dilation=dilation, bias=False)
        self.norm = nn.BatchNorm2d(WIDTH)

    def forward(self, x):
        return x + F.relu(self.norm(self.conv(x)))


class Network(nn.Module):
    """Whether a car's middle is in a place of a metre; and where in it, the car's sides, and its yaw, doubled."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(SLICES, WIDTH, 3, STRIDE, 1, bias=False)
        self.norm = nn.BatchNorm2d(WIDTH)
        self.blocks = nn.ModuleList(Block(d) for d in (1, 1, 2, 1))
        self.there = nn.Conv2d(WIDTH, 1, 1)
        self.box = nn.Conv2d(WIDTH, 6, 1)
        nn.init.constant_(self.there.bias, -4)

    def forward(self, x):
        x = F.relu(self.norm(self.stem(x)))
        for block in self.blocks:
            x = block(x)
        return self.there(x), self.box(x)


def targets(cars):
    """Maps: how much of a middle a place is, whether it counts, which place has a box, and that."""
    heat, counts = np.zeros((PLACES, PLACES), np.float32), np.ones((PLACES, PLACES), np.float32)
    has, box = np.zeros((PLACES, PLACES), np.float32), np.zeros((6, PLACES, PLACES), np.float32)
    for x, y, length, width, yaw, points in cars:
        u, v = (x + SIDE / 2) * PLACES / SIDE, (y + SIDE / 2) * PLACES / SIDE
        row, column = int(np.floor(u)), int(np.floor(v))
        if points < NONE or not (0 <= row < PLACES and 0 <= column < PLACES):
            continue
        if points < LEAST:
            counts[max(row - 2, 0):row + 3, max(column - 2, 0):column + 3] = 0
            continue
        for i in range(max(row - 1, 0), min(row + 2, PLACES)):
            for j in range(max(column - 1, 0), min(column + 2, PLACES)):
                heat[i, j] = max(heat[i, j], np.exp(-((i + 0.5 - u) ** 2 + (j + 0.5 - v) ** 2) / 0.8))
        heat[row, column], has[row, column] = 1, 1
        box[:, row, column] = u - row, v - column, np.log(length), np.log(width), np.sin(2 * yaw), np.cos(2 * yaw)
    counts[has > 0] = 1
    return heat, counts, has, box


def loss_of(there, box, heat, counts, has, true):
    """The losses of CenterNet (Zhou and others, "Objects as Points", 2019)."""
    p = torch.sigmoid(there[:, 0]).clamp(1e-4, 1 - 1e-4)
    found = -((1 - p) ** 2) * p.log() * has
    other = -((1 - heat) ** 4) * p**2 * (1 - p).log() * counts * (1 - has)
    away = (box - true).abs().sum(1) * has
    n = has.sum().clamp(min=1)
    return (found.sum() + other.sum() + away.sum()) / n


def sample(rng, places, values, cars):
    """A sweep, perhaps mirrored."""
    pillars = np.zeros(SLICES * CELLS * CELLS, np.float32)
    pillars[places] = values
    pillars = pillars.reshape(SLICES, CELLS, CELLS)
    cars = cars.copy()
    if rng.random() < 0.5:
        pillars = pillars[:, :, ::-1]
        cars[:, 1], cars[:, 4] = -cars[:, 1], -cars[:, 4]
    if rng.random() < 0.5:
        pillars = pillars[:, ::-1]
        cars[:, 0], cars[:, 4] = -cars[:, 0], np.pi - cars[:, 4]
    return np.ascontiguousarray(pillars), *targets(cars)


def train(data, rng):
    net = Network()

    def loss():
        x, *true = (torch.from_numpy(np.stack(part)) for part in zip(*(sample(rng, *data[rng.integers(len(data))]) for _ in range(BATCH))))
        return loss_of(*net(x), *true)

    return fit(net, loss, STEPS, 5e-3, 1e-3, 10)


def export(net, path):
    """ONNX, with the normalisations folded into the convolutions."""
    g = Graph()
    at = g.node("Relu", [g.conv("pillars", net.stem, net.norm)])
    for block in net.blocks:
        at = g.node("Add", [at, g.node("Relu", [g.conv(at, block.conv, block.norm)])])
    g.node("Sigmoid", [g.conv(at, net.there)], "scores")
    g.conv(at, net.box, output="boxes")
    g.save(path, "cars", {"pillars": [1, SLICES, CELLS, CELLS]}, {"scores": [1, 1, PLACES, PLACES], "boxes": [1, 6, PLACES, PLACES]},
           producer_name="tools/train/lidar/train.py")


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        binary = pathlib.Path(name) / "train"
        subprocess.run(["go", "build", "-o", binary, "./tools/train"], check=True, cwd=ROOT)
        data = sweeps(binary, 100, 64)
    print(f"{len(data)} sweeps", flush=True)
    export(train(data, np.random.default_rng(1)), ROOT / "videoext/pipeline/lidar/network.onnx")


if __name__ == "__main__":
    main()
