"""Compares what a server hears in files of sound with what ONNX Runtime does, through OpenAI's Python client.

    python tools/peers/speech_parity.py http://127.0.0.1:8000/v1 MODEL FOLDER FILE...

FOLDER has one network, which takes a waveform and perhaps its length, and its alphabet (vocab.json or alphabet.txt) and rate
(preprocessor_config.json), as `pipeline: speech` does. Needs openai, onnxruntime, numpy and scipy. Files are WAV of 16 bits; those of
another rate are resampled by scipy here, and differ from the server's a little. Ends with 1 if a text differs of a file at the network's own rate.
"""

import json
import math
import pathlib
import sys
import time
import wave

import numpy as np
import onnxruntime
import openai
from scipy.signal import resample_poly

BLANKS, WORDS = ["<blank>", "<blk>", "<pad>", "[PAD]"], ["|", "<wb>", " ", "▁"]


def read(path):
    with wave.open(str(path)) as f:
        sound = np.frombuffer(f.readframes(f.getnframes()), "<i2").reshape(-1, f.getnchannels()).astype(np.float32) / 32768
        return sound.mean(1), f.getframerate()


def alphabet(folder):
    vocabulary = folder / "vocab.json"
    if not vocabulary.exists():
        return (folder / "alphabet.txt").read_text().splitlines()
    symbols = json.loads(vocabulary.read_text())
    return symbols if isinstance(symbols, list) else sorted(symbols, key=symbols.get)


def decode(best, symbols):
    """CTC's rule: runs become one, blanks go; words are between delimiters."""
    blank = next((symbols.index(b) for b in BLANKS if b in symbols), 0)
    kept = [symbols[b] for i, b in enumerate(best) if b != blank and (i == 0 or best[i - 1] != b)]
    return " ".join("".join(" " if s in WORDS else "" if s[0] + s[-1] in ("<>", "[]") and len(s) > 2 else s for s in kept).split())


def main():
    url, model, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    [network] = folder.glob("*.onnx")
    session, symbols = onnxruntime.InferenceSession(str(network)), alphabet(folder)
    settings = folder / "preprocessor_config.json"
    rate = json.loads(settings.read_text())["sampling_rate"] if settings.exists() else 16000
    client = openai.OpenAI(base_url=url, api_key="none")
    same, seconds, failed = 0, 0.0, 0
    for path in sys.argv[4:]:
        sound, own = read(path)
        if own != rate:
            sound = resample_poly(sound, rate // math.gcd(rate, own), own // math.gcd(rate, own)).astype(np.float32)
        padded = np.pad(sound, (0, -len(sound) % rate))[None]
        first, *rest = session.get_inputs()
        said = session.run(None, {first.name: padded, **{r.name: np.array([len(sound)]) for r in rest}})[0][0]
        want = decode(list(said[: math.ceil(len(said) * len(sound) / padded.shape[1])].argmax(1)), symbols)
        begun = time.time()
        with open(path, "rb") as file:
            got = client.audio.transcriptions.create(model=model, file=file, response_format="verbose_json", timestamp_granularities=["word"])
        seconds += time.time() - begun
        assert abs(got.duration - len(sound) / rate) < 0.002 and all(w.end > w.start for w in got.words or []), got
        same += got.text == want
        if got.text != want:
            failed += own == rate
            print(f"{path}:\n  {got.text!r}\n  {want!r}")
    print(f"{same} of {len(sys.argv) - 4} texts are the same; {seconds:.2f} s")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
