#!/usr/bin/env python3
"""How long what a detector has found stays true: F1 of its findings in a frame against those so many seconds later.

    tools/measure/agreement.py MODEL.onnx CLIP... [--prefillonly bin/prefillonly]

The simulator takes the means for frames that are not served (scheduler/sim/presets/outcome.go). Boxes are one thing if their class is
the same and they overlap by half; those of all frames are counted together, by clip.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

SECONDS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("clips", nargs="+")
    parser.add_argument("--prefillonly", default="bin/prefillonly")
    options = parser.parse_args()
    curves = []
    for clip in options.clips:
        frames = find_objects(options, clip)
        curves.append([f1_after(frames, round(s * RATE)) for s in SECONDS])
        print(pathlib.Path(clip).name, len(frames), "frames", sum(map(len, frames)), "objects:", *(f"{v:.3f}" for v in curves[-1]))
    print("seconds:", *SECONDS)
    print("mean:", *(f"{sum(c) / len(c):.3f}" for c in zip(*curves)))


RATE = 10  # frames a second that are looked at


def find_objects(options, clip):
    """Lists for each frame of a clip what the network finds: (class, box)."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["ffmpeg", "-v", "error", "-i", clip, "-vf", f"fps={RATE}", "-q:v", "2", f"{folder}/%05d.jpg"], check=True)
        pictures = sorted(str(p) for p in pathlib.Path(folder).glob("*.jpg"))
        command = [options.prefillonly, "video", "detect", options.model, *pictures, "--decoder", "yolox", "--out", f"{folder}/found", "--score", "0.3"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found = [json.loads(p.read_text()) for p in sorted(pathlib.Path(folder, "found").glob("*.json"))]
    return [[(d["class"], d["box"]) for d in f["detections"]] for f in found]


def f1_after(frames, later):
    matches = sum(count_matches(a, b) for a, b in zip(frames, frames[later:]))
    objects = sum(len(a) + len(b) for a, b in zip(frames, frames[later:]))
    return 2 * matches / max(objects, 1)


def count_matches(a, b):
    """Pairs boxes, those that overlap most first."""
    pairs = sorted(((overlap(p, q), i, j) for i, (c, p) in enumerate(a) for j, (d, q) in enumerate(b) if c == d), reverse=True)
    left, right = set(), set()
    for share, i, j in pairs:
        if share >= 0.5 and i not in left and j not in right:
            left.add(i)
            right.add(j)
    return len(left)


def overlap(p, q):
    w, h = min(p[2], q[2]) - max(p[0], q[0]), min(p[3], q[3]) - max(p[1], q[1])
    if w <= 0 or h <= 0:
        return 0
    area = lambda r: (r[2] - r[0]) * (r[3] - r[1])
    return w * h / (area(p) + area(q) - w * h)


if __name__ == "__main__":
    main()
