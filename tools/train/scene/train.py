"""Trains the demo detector on drawn streets and writes videoext/scene/detector.onnx.

    python tools/train/scene/train.py

Needs torch, numpy, onnx, the ffmpeg program with libx264, and Go. One run takes about ten minutes on two cores. Seeded; the
order of sums in other versions or thread counts changes the last digits. Streets of seeds 100 to 147 are trained on, and 900
to 903 tell how good it is; the demo and the tests show others.
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

W, H, STRIDE = 512, 288, 8
CROP_W, CROP_H = 192, 128
CLASSES = 3
# What a street is seen through: nothing, or H.264 at a QP and a scale of the frame.
QUALITIES = [None, (24, 1), (28, 0.8), (32, 0.8), (36, 0.8), None]


def street(binary, directory, seed, frames, quality):
    """Frames [n, H, W, 3] in BGR, and for each its boxes [k, 5]: class and corners in pixels of W x H."""
    clip, boxes = directory / "clip.y4m", directory / "boxes.txt"
    subprocess.run([binary, "scene", "-seed", str(seed), "-frames", str(frames), "-rate", "1", "-clip", clip, "-boxes", boxes], check=True)
    source = clip
    if quality:
        qp, scale = quality
        source = directory / "clip.mkv"
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", clip, "-vf", f"scale={int(640 * scale)}:{int(360 * scale)}", "-c:v", "libx264",
                        "-preset", "veryfast", "-qp", str(qp), source], check=True)
    raw = subprocess.run(["ffmpeg", "-v", "error", "-i", source, "-vf", f"scale={W}:{H}:flags=bilinear", "-pix_fmt", "bgr24", "-f", "rawvideo", "-"],
                         check=True, capture_output=True).stdout
    pictures = np.frombuffer(raw, np.uint8).reshape(-1, H, W, 3)
    table = np.loadtxt(boxes, ndmin=2)
    return pictures, [table[table[:, 0] == i, 1:] * [1, W, H, W, H] for i in range(frames)]


class Block(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=dilation, dilation=dilation, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return x + F.relu(self.norm(self.conv(x)))


class Detector(nn.Module):
    """FastestDet's outputs, at one stride: whether there is a thing, where its middle is, its size, its class; all of them raw."""

    def __init__(self):
        super().__init__()
        sizes = [3, 16, 24, 40]
        self.stem = nn.ModuleList(nn.Sequential(nn.Conv2d(a, b, 3, 2, 1, bias=False), nn.BatchNorm2d(b)) for a, b in zip(sizes, sizes[1:]))
        self.blocks = nn.ModuleList(Block(40, d) for d in (1, 2, 4, 1))
        self.head = nn.Conv2d(40, 5 + CLASSES, 1)
        nn.init.constant_(self.head.bias[:1], -4)

    def forward(self, x):
        for layer in self.stem:
            x = F.relu(layer(x))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def targets(boxes, w, h):
    """Maps of a crop's boxes: what a place is to say, and where it is to say anything."""
    rows, columns = h // STRIDE, w // STRIDE
    box, label = np.zeros((4, rows, columns), np.float32), np.full((rows, columns), -1, np.int64)
    order = np.argsort(-(boxes[:, 3] - boxes[:, 1]) * (boxes[:, 4] - boxes[:, 2]))  # the smaller one has a place
    for c, x0, y0, x1, y1 in boxes[order]:
        x, y = (x0 + x1) / 2 / STRIDE, (y0 + y1) / 2 / STRIDE
        for i in (int(y), int(y) + 1):
            for j in (int(x), int(x) + 1):
                if 0 <= i < rows and 0 <= j < columns:
                    box[:, i, j], label[i, j] = (x0, y0, x1, y1), int(c)
    return box, label


def decode(out):
    """Boxes [n, 4, rows, columns] of raw outputs, in pixels."""
    rows, columns = out.shape[2:]
    x = (torch.arange(columns) + out[:, 1].tanh()) * STRIDE
    y = (torch.arange(rows)[:, None] + out[:, 2].tanh()) * STRIDE
    w, h = out[:, 3].sigmoid() * W, out[:, 4].sigmoid() * H
    return torch.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], 1)


def overlap(a, b):
    """IoU and GIoU of boxes [n, 4]."""
    low, high = torch.maximum(a[:, :2], b[:, :2]), torch.minimum(a[:, 2:], b[:, 2:])
    inside = (high - low).clamp(min=0).prod(1)
    area = (a[:, 2:] - a[:, :2]).prod(1) + (b[:, 2:] - b[:, :2]).prod(1) - inside
    hull = (torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])).prod(1)
    iou = inside / area
    return iou, iou - (hull - area) / hull


def loss_of(out, box, label):
    there = label >= 0
    p = out[:, 0]
    focal = (torch.sigmoid(p) - there.float()).abs() ** 2 * F.binary_cross_entropy_with_logits(p, there.float(), reduction="none")
    count = there.sum().clamp(min=1)
    found = decode(out).permute(0, 2, 3, 1)[there]
    _, giou = overlap(found, box.permute(0, 2, 3, 1)[there])
    classes = F.cross_entropy(out[:, 5:].permute(0, 2, 3, 1)[there], label[there], reduction="sum")
    return (4 * focal.sum() + 2 * (1 - giou).sum() + 0.5 * classes) / count


def crop(rng, picture, boxes):
    """A part of a picture, perhaps mirrored, its colours changed a little."""
    x, y = rng.integers(0, (W - CROP_W) // STRIDE + 1) * STRIDE, rng.integers(4, (H - CROP_H) // STRIDE + 1) * STRIDE
    part = picture[y:y + CROP_H, x:x + CROP_W].astype(np.float32) / 255
    moved = boxes - [0, x, y, x, y]
    middle = (moved[:, 1:3] + moved[:, 3:5]) / 2
    moved = moved[(middle > -4).all(1) & (middle < [CROP_W + 4, CROP_H + 4]).all(1)]
    if rng.random() < 0.5:
        part = part[:, ::-1]
        moved[:, [1, 3]] = CROP_W - moved[:, [3, 1]]
    part = (part - 0.5) * rng.uniform(0.8, 1.2) + 0.5 + rng.uniform(-0.08, 0.08) + rng.normal(0, 0.02, 3)
    return torch.from_numpy(np.ascontiguousarray(part.clip(0, 1), np.float32)).permute(2, 0, 1), targets(moved, CROP_W, CROP_H)


def train(data, steps, batch, rng):
    net = Detector()

    def loss():
        parts = [crop(rng, *data[rng.integers(len(data))]) for _ in range(batch)]
        x = torch.stack([p for p, _ in parts])
        box, label = (torch.from_numpy(np.stack([t[k] for _, t in parts])) for k in range(2))
        return loss_of(net(x), box, label)

    return fit(net, loss, steps, 4e-3, 1e-3, 10)


def found_in(out, least):
    """What the server's decoder makes of a picture's outputs: rows of class, corners and score."""
    score = out[0, 0].sigmoid() ** 0.6 * out[0, 5:].softmax(0).max(0).values ** 0.4
    rows = torch.cat([out[0, 5:].argmax(0)[None].float(), decode(out)[0], score[None]]).flatten(1).T
    rows = rows[rows[:, 5] > least]
    rows, kept = rows[rows[:, 5].argsort(descending=True)], []
    for r in rows:
        if all(k[0] != r[0] or overlap(k[None, 1:5], r[None, 1:5])[0] < 0.45 for k in kept):
            kept.append(r)
    return kept


def f1(net, data):
    right = found = true = 0
    for picture, boxes in data:
        with torch.no_grad():
            out = net(torch.from_numpy(picture.astype(np.float32) / 255).permute(2, 0, 1)[None])
        rest = [torch.tensor(b, dtype=torch.float32) for b in boxes]
        true += len(rest)
        for r in found_in(out, 0.5):
            found += 1
            same = [i for i, b in enumerate(rest) if b[0] == r[0] and overlap(b[None, 1:], r[None, 1:5])[0] > 0.5]
            if same:
                rest.pop(same[0])
                right += 1
    return 2 * right / (found + true)


def export(net, path):
    """ONNX, with the normalisations folded into the convolutions."""
    g, at = Graph(), "picture"
    for layer in net.stem:
        at = g.node("Relu", [g.conv(at, layer[0], layer[1])])
    for block in net.blocks:
        at = g.node("Add", [at, g.node("Relu", [g.conv(at, block.conv, block.norm)])])
    there, box, label = g.node("Split", [g.conv(at, net.head), g.constant(np.array([1, 4, CLASSES]))], ["there", "box", "label"], axis=1)
    g.node("Concat", [g.node("Sigmoid", [there]), box, g.node("Softmax", [label], axis=1)], "things", axis=1)
    g.save(path, "streets", {"picture": [1, 3, H, W]}, {"things": [1, 5 + CLASSES, H // STRIDE, W // STRIDE]}, producer_name="tools/train/scene/train.py")


def main():
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        binary = directory / "train"
        subprocess.run(["go", "build", "-o", binary, "./tools/train"], check=True, cwd=ROOT)

        def streets(seeds, frames, quality):
            return [pair for seed in seeds for pair in zip(*street(binary, directory, seed, frames, quality(seed)))]

        data = streets(range(100, 148), 16, lambda seed: QUALITIES[seed % len(QUALITIES)])
        judged = {quality: streets(range(900, 904), 8, lambda _: quality) for quality in QUALITIES[:5]}
    print(f"{len(data)} pictures", flush=True)
    net = train(data, 1200, 8, rng)
    for quality, pictures in judged.items():
        print(f"F1 {f1(net, pictures):.3f} " + (f"at QP {quality[0]}, scale {quality[1]}" if quality else "as drawn"), flush=True)
    export(net, ROOT / "videoext/scene/detector.onnx")


if __name__ == "__main__":
    main()
