"""Trains the recogniser of spoken digits on FSDD and writes videoext/pipeline/audio/digits.onnx.

    python tools/train/audio/train.py RECORDINGS

Needs torch, numpy and onnx, and the recordings of the Free Spoken Digit Dataset (github.com/Jakobovski/free-spoken-digit-dataset, commit
26eb9aaf76e8, CC BY-SA 4.0): 3,000 files of 8 kHz, 6 speakers x 10 digits x 50 takes. As its authors have it, takes 5 to 49 are trained on, and 0 to 4
tell how good it is. One run takes about three minutes on a core. Seeded; the order of sums in other versions or thread counts changes the last
digits. The network sees seconds of sound that are drawn: none to two recordings, noise, music or
speech that runs backwards, and now and then a low sampling rate.
"""

import pathlib
import sys
import wave

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

ROOT = pathlib.Path(__file__).parents[3]
sys.path.append(str(ROOT / "tools" / "train"))
from training import Graph, fit  # noqa: E402

RATE, HOP, WINDOW, BANDS = 8000, 80, 256, 32
FRAMES, STEPS, NONE = RATE // HOP, RATE // HOP // 4, 10
FLOOR = 1e-5
RATES = [2000, 3000, 4000, 5000, 6000]


def read(directory, takes):
    """Recordings: waves with a peak of 1, and their digits."""
    found = []
    for path in sorted(pathlib.Path(directory).glob("*.wav")):
        digit, _, take = path.stem.split("_")
        if int(take) in takes:
            with wave.open(str(path)) as f:
                sound = np.frombuffer(f.readframes(f.getnframes()), "<i2").astype(np.float32)
            found.append((sound[:RATE] / max(np.abs(sound).max(), 1), int(digit)))
    return found


def mel(f):
    return 2595 * np.log10(1 + f / 700)


def filters():
    """Triangles [BANDS, WINDOW/2 + 1] between 60 Hz and 4 kHz, at even steps of mel."""
    edges = np.linspace(mel(60), mel(4000), BANDS + 2)
    at = mel(np.arange(WINDOW // 2 + 1) * RATE / WINDOW)
    up = (at - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - at) / (edges[2:] - edges[1:-1])[:, None]
    return torch.tensor(np.maximum(0, np.minimum(up, down)), dtype=torch.float32)


FILTERS = filters()
HANN = torch.hann_window(WINDOW)  # periodic


def spectrogram(sound):
    """The network's input [n, 1, BANDS, FRAMES] of seconds [n, RATE]: the logarithm of the power in each band, from 0, nothing, up."""
    frames = F.pad(sound, (WINDOW // 2 - HOP // 2, WINDOW)).unfold(1, WINDOW, HOP)[:, :FRAMES]
    power = torch.fft.rfft(frames * HANN).abs() ** 2 / (WINDOW / 4) ** 2
    return ((torch.log(power @ FILTERS.T + FLOOR) - np.log(FLOOR)) / 4).transpose(1, 2)[:, None]


def second(rng, recordings, count):
    """A second of sound, and what each step of 40 ms is to say: a digit in its middle, nothing (-1) in the rest of it, NONE elsewhere."""
    sound, label = np.zeros(RATE, np.float32), np.full(STEPS, NONE)
    at = 0
    for left in range(count, 0, -1):
        one, digit = recordings[rng.integers(len(recordings))]
        n = min(int(len(one) / rng.uniform(0.85, 1.15)), RATE)
        if at + n > RATE:
            break
        one = np.interp(np.linspace(0, len(one) - 1, n), np.arange(len(one)), one)
        start = at + int(rng.integers(0, max((RATE - at - n) // left, 0) + 1))
        sound[start:start + n] += one * 10 ** rng.uniform(-1.2, -0.1)
        middle, step = start + n / 2, RATE / STEPS
        for s in range(STEPS):
            away = abs((s + 0.5) * step - middle)
            if away < max(n / 6, step):
                label[s] = digit
            elif away < n / 2 and label[s] == NONE:
                label[s] = -1
        at = start + n + 400
    return sound, label


def noise(rng):
    """Noise of a colour and a loudness."""
    spectrum = np.fft.rfft(rng.normal(size=RATE))
    spectrum *= np.maximum(np.arange(len(spectrum)) / 100, 1) ** -rng.uniform(0, 1)
    drawn = np.fft.irfft(spectrum, RATE)
    return (drawn / drawn.std() * 10 ** rng.uniform(-4, -1.3)).astype(np.float32)


def bursts(rng):
    """Noises that fade, which are no digits."""
    sound = np.zeros(RATE)
    for _ in range(rng.integers(1, 5)):
        start, n = rng.integers(0, RATE * 3 // 4), np.arange(RATE)
        one = noise(rng) * np.exp(-n / RATE / rng.uniform(0.01, 0.15))
        sound[start:] += (one / np.abs(one).max() * 10 ** rng.uniform(-1.2, 0))[:RATE - start]
    return sound.astype(np.float32)


def music(rng):
    """Notes with harmonics, which are no digits either."""
    sound, t = np.zeros(RATE), np.arange(RATE) / RATE
    for start in np.arange(0, 1, rng.uniform(0.15, 0.5)):
        for note in rng.uniform(100, 700, rng.integers(1, 4)):
            for h in range(1, 8):
                fade = np.exp(-(t - start) * rng.uniform(2, 8)) * (t >= start)
                sound += fade * rng.uniform(0, 1) / h * np.sin(2 * np.pi * h * note * t) * (h * note < RATE / 2)
    return (sound / np.abs(sound).max() * 10 ** rng.uniform(-1.2, -0.1)).astype(np.float32)


def lower(sound, rate):
    """What is left of a sound that is sent at a lower rate."""
    spectrum = np.fft.rfft(sound)
    spectrum[int(0.46 * rate):] = 0
    return np.fft.irfft(spectrum, RATE).astype(np.float32)


def batch(rng, recordings, n):
    seconds = []
    for _ in range(n):
        count = rng.choice(3, p=[0.3, 0.35, 0.35])
        sound, label = second(rng, recordings, count)
        sound = sound + noise(rng)
        if count == 0:
            other = rng.integers(3)
            if other == 0:
                sound += bursts(rng)
            elif other == 1:
                sound += music(rng)
            else:  # speech of no language
                sound += second(rng, recordings, 2)[0][::-1]
        if rng.random() < 0.25:
            sound = lower(sound, rng.choice(RATES))
        seconds.append((sound, label))
    return spectrogram(torch.from_numpy(np.stack([s for s, _ in seconds]))), torch.from_numpy(np.stack([l for _, l in seconds]))


class Recogniser(nn.Module):
    """For each step of 40 ms, which digit's middle it is in, or none."""

    def __init__(self):
        super().__init__()

        def layer(a, b, kernel, stride=1, padding=0, dilation=1):
            return nn.Sequential(nn.Conv2d(a, b, kernel, stride, padding, dilation, bias=False), nn.BatchNorm2d(b))

        self.layers = nn.ModuleList([
            layer(1, 12, 3, 2, 1), layer(12, 24, 3, 2, 1), layer(24, 64, (BANDS // 4, 3), 1, (0, 1)),
            layer(64, 64, (1, 3), 1, (0, 1)), layer(64, 64, (1, 3), 1, (0, 2), (1, 2)), layer(64, 64, (1, 3), 1, (0, 4), (1, 4))])
        self.drop = nn.Dropout(0.2)
        self.head = nn.Conv2d(64, NONE + 1, 1)

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            y = F.relu(layer(x))
            x = x + self.drop(y) if i > 2 else y
        return self.head(x)[:, :, 0]


def train(recordings, steps, size, rng):
    net = Recogniser()

    def loss():
        x, label = batch(rng, recordings, size)
        return F.cross_entropy(net(x), label, ignore_index=-1)

    return fit(net, loss, steps, 4e-3, 1e-2, 5)


def accuracy(net, recordings, rate=None):
    """The part of recordings, each alone in a second with faint noise, whose digit is the likeliest at any step."""
    rng, right = np.random.default_rng(2), 0
    for one, digit in recordings:
        sound = rng.normal(0, 0.001, RATE).astype(np.float32)
        start = (RATE - len(one)) // 2
        sound[start:start + len(one)] += 0.4 * one
        if rate:
            sound = lower(sound, rate)
        with torch.no_grad():
            likely = net(spectrogram(torch.from_numpy(sound)[None])).softmax(1)[0, :NONE].max(1).values
        right += likely.argmax().item() == digit
    return right / len(recordings)


def export(net, path):
    """ONNX, with the normalisations folded into the convolutions."""
    g, at = Graph(), "spectrogram"
    for i, (layer, norm) in enumerate(net.layers):
        y = g.node("Relu", [g.conv(at, layer, norm)])
        at = g.node("Add", [at, y]) if i > 2 else y
    g.node("Softmax", [g.conv(at, net.head)], "digits", axis=1)
    g.save(path, "spoken digits", {"spectrogram": [1, 1, BANDS, FRAMES]}, {"digits": [1, NONE + 1, 1, STEPS]},
           producer_name="tools/train/audio/train.py", doc_string="Trained on the Free Spoken Digit Dataset, CC BY-SA 4.0")


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    recordings, judged = read(sys.argv[1], range(5, 50)), read(sys.argv[1], range(5))
    print(f"{len(recordings)} recordings, and {len(judged)} held out", flush=True)
    net = train(recordings, 1500, 32, np.random.default_rng(1))
    for rate in [None, *reversed(RATES)]:
        print(f"held out: {accuracy(net, judged, rate):.3f} at {rate or RATE} Hz", flush=True)
    export(net, ROOT / "videoext/pipeline/audio/digits.onnx")


if __name__ == "__main__":
    main()
