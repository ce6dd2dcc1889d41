"""Attacks on the work that processors do beside the passes: pictures and sounds that lie, and slots for other programs."""

import base64
import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import struct
import tempfile
import threading
import time

from network import field, value_info, varint
from server import Server, message, decode
from tensors import grown, png, resident

DIGITS = pathlib.Path(__file__).resolve().parent.parent.parent / "engine" / "speech" / "testdata" / "digits"


def floats(name, dims, value):
    count = 1
    for d in dims:
        count *= d
    return field(5, b"".join(field(1, d) for d in dims) + field(2, 1) + field(8, name) + field(9, struct.pack("<f", value) * count))


def ints(name, *values):
    return field(5, field(1, len(values)) + field(2, 7) + field(8, name) + field(9, struct.pack(f"<{len(values)}q", *values)))


def operation(op, read, written, **attributes):
    body = b"".join(field(1, r) for r in read) + field(2, written) + field(4, op)
    for name, values in attributes.items():
        body += field(5, field(1, name) + b"".join(varint(8 << 3) + varint(v) for v in values) + field(20, 7))
    return field(1, body)


def write_network(path, dims, outputs, *parts):
    graph = b"".join(parts) + field(2, "g") + field(11, value_info("x", dims)) + field(12, value_info("y", outputs))
    pathlib.Path(path).write_bytes(field(1, 8) + field(7, graph) + field(8, field(2, 17)))


@contextlib.contextmanager
def serving(binary):
    """A server that reads pictures by two small networks and hears digits, for the keys one and two."""
    with tempfile.TemporaryDirectory() as directory:
        at = pathlib.Path(directory)
        write_network(at / "det.onnx", [1, 3, "h", "w"], [1, 1, "h", "w"], floats("w", [1, 3, 1, 1], 1.0), operation("Conv", ["x", "w"], "c"), operation("Sigmoid", ["c"], "y"))
        write_network(at / "rec.onnx", ["n", 3, 48, "w"], ["n", "w", 4], floats("w", [4, 3, 48, 1], 0.01), ints("two", 2), operation("Conv", ["x", "w"], "c"),
                      operation("Squeeze", ["c", "two"], "s"), operation("Transpose", ["s"], "y", perm=[0, 2, 1]))
        (at / "keys.txt").write_text("a\nb\n")
        (at / "models.yaml").write_text(json.dumps({"models": [
            {"path": directory, "name": "reader", "pipeline": "ocr", "networks": {"detect": "det.onnx", "recognize": "rec.onnx"}, "alphabet": str(at / "keys.txt")},
            {"path": str(DIGITS), "name": "digits", "pipeline": "speech"},
        ]}))
        with Server(binary, "--config", str(at / "models.yaml"), env={"PREFILLONLY_API_KEY": "one,two"}) as server:
            if not server.wait_ready(60):
                server.log.seek(0)
                raise RuntimeError("the server did not start: " + server.log.read()[-2000:])
            yield server


def keyed(key="one", **more):
    return {"Authorization": "Bearer " + key, **more}


def ask_all(server, path, lies):
    """How many lies were refused, and those that were not, or not by what names them."""
    refused, wrong = 0, []
    for what, body, kind, names in lies:
        for _ in range(5):
            status, raw = server.request("POST", path, body, 60, keyed(**{"Content-Type": kind}))
            said = message(decode(raw))
            if 400 <= status < 500 and names in said:
                refused += 1
            else:
                wrong.append(f"{what}: {status} {said[:200]}")
                break
    return refused, wrong


def picture_lies():
    """(what, body, type, what the refusal names)."""
    def of(file, **more):
        return json.dumps({"model": "reader", "image": "data:image/png;base64," + base64.b64encode(file).decode(), **more})

    good = png(64, 64)
    claims = bytearray(good)
    claims[16:24] = struct.pack(">II", 100_000, 100_000)
    jpeg = b"\xff\xd8\xff\xc0\x00\x11\x08" + struct.pack(">HH", 65535, 65535) + b"\x03\x01\x22\x00\x02\x11\x01\x03\x11\x01"
    yield "10^10 pixels claimed", of(bytes(claims)), "application/json", "image"
    yield "a JPEG's head of 2^32 pixels", of(jpeg), "application/json", "image"
    yield "one pixel too many", of(png(33_177_601, 1)), "application/json", "33177600"
    yield "a picture cut short", of(good[: len(good) // 2]), "application/json", "image"
    yield "no picture", of(b"GIF89a" + bytes(100)), "application/json", "JPEG"
    yield "a file of the server's", json.dumps({"model": "reader", "image": "file:///etc/passwd"}), "application/json", "fetches nothing"
    yield "an address", json.dumps({"model": "reader", "image": "http://127.0.0.1:1/a.png"}), "application/json", "fetches nothing"
    yield "1 MB that is not base64", json.dumps({"model": "reader", "image": "?" * 1_000_000}), "application/json", "base64"
    yield "two pictures", of(good, document={"type": "image_url", "image_url": "x"}), "application/json", "both"
    yield "the network instead of the pipeline", of(good, model="reader/recognize"), "application/json", "reader/recognize"


def wave(rate=8000, channels=1, bits=16, size=None, data=bytes(1600), kind=1):
    block = channels * bits // 8
    head = struct.pack("<4sI4s4sIHHIIHH", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, kind, channels & 0xFFFF, rate & 0xFFFFFFFF, rate * block & 0xFFFFFFFF, block & 0xFFFF, bits)
    return head + struct.pack("<4sI", b"data", len(data) if size is None else size) + data


def sound_lies():
    """(what, body, type, what the refusal names)."""
    def form(file, **fields):
        text = b"".join(f'--b\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode() for k, v in {"model": "digits", **fields}.items())
        return text + b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + file + b"\r\n--b--\r\n"

    kind = "multipart/form-data; boundary=b"
    yield "a rate of 2^32 - 1", form(wave(rate=2**32 - 1)), kind, "file"
    yield "a rate of 0", form(wave(rate=0)), kind, "file"
    yield "65,535 channels", form(wave(channels=65535)), kind, "file"
    yield "no samples", form(wave(data=b"")), kind, "no samples"
    yield "an hour", form(wave(rate=1000, bits=8, data=bytes(3_600_000))), kind, "1800"
    yield "no sound", form(b"\x00" * 1000), kind, "file"
    yield "FLAC that says that it has 2^36 samples", form(b"fLaC\x80\x00\x00\x22" + bytes(13) + b"\xff" * 5 + bytes(16)), kind, "file"
    yield "MP4 of boxes without an end", form((struct.pack(">I4s", 8, b"moov") * 1000) + struct.pack(">I4s", 2**31, b"ftyp")), kind, "file"
    yield "a playlist of the server's files", form(b"#EXTM3U\n#EXTINF:1\nfile:///etc/passwd\n"), kind, "file"
    yield "a form without an end", form(wave())[:-10], kind, "form"
    yield "a field of 1 MB", form(wave(), prompt="x" * 1_000_000), kind, "16384"
    yield "another form of answer in JSON", json.dumps({"file": base64.b64encode(wave()).decode(), "response_format": "srt"}), "application/json", "response_format"
    yield "an address", json.dumps({"file": "https://127.0.0.1:1/a.wav"}), "application/json", "fetches nothing"


def lying(binary, path, lies):
    with serving(binary) as server:
        before = resident(server)
        refused, wrong = ask_all(server, path, lies)
        more = grown(before, resident(server))
        status, raw = server.request("POST", "/v1/audio/transcriptions", json.dumps({"model": "digits", "file": base64.b64encode(wave()).decode()}), 60, keyed())
        held = not wrong and more < 128 and status == 200
        return held, "; ".join(wrong) or f"{refused} refused, grown by {more} MiB, a sound after them {status}"


def lying_pictures(binary):
    """/v1/ocr is asked for pictures that claim pixels which they do not have, are cut short, are none, or are to be fetched, each 5 times. Wanted: 4xx that names the field or the figure, no process grows by 128 MiB, the server answers on"""
    return lying(binary, "/v1/ocr", picture_lies())


def lying_sounds(binary):
    """/v1/audio/transcriptions is asked for WAV of impossible rates, channels and lengths, for FLAC and MP4 that lie, for a playlist of the server's files, and in forms without an end, each 5 times. Wanted: the same"""
    return lying(binary, "/v1/audio/transcriptions", sound_lies())


def open_slot(server, key, query="kind=crop", timeout=30):
    """(connection, status, first line) of an answer that holds a slot."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout)
    connection.request("GET", "/v1/stages/slot?" + query, headers=keyed(key))
    response = connection.getresponse()
    return connection, response.status, response.readline()


def running(server):
    text = server.request("GET", "/metrics", None, 60, keyed())[1].decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(("prefillonly:cpu_stages_running", "prefillonly:cpu_stages_waiting")))


def flood_slots(server, until, counts):
    while not until.is_set():
        try:
            connection, status, _ = open_slot(server, "one", timeout=1)
            connection.close()
        except OSError:
            status = "left"
        counts[status] = counts.get(status, 0) + 1


def slots(binary):
    """One key asks for slots of processors by 300 connections at a time, holds each until it is taken away or hangs up, in 100 kinds, with deadlines and remainders of 0, NaN, 10^300 and less than nothing, while another key asks for a slot 20 times, and for the text of a sound. Wanted: the absurd is refused by name, kinds beyond 64 as well; the other key has each slot within 5 s and the text within 10 s; afterwards no slot is held, no process has grown by 128 MiB"""
    with serving(binary) as server:
        before, wrong = resident(server), []
        for query in ("", "kind=Crop", "kind=crop&units=-1", "kind=crop&units=1e300", "kind=crop&deadline_ms=NaN", "kind=crop&deadline_ms=-1", "kind=crop&then=device", "kind=crop&then=device:1e300", "kind=crop&then=" + "a:1," * 10_000):
            status, raw = server.request("GET", "/v1/stages/slot?" + query, None, 10, keyed())
            if not 400 <= status < 500 or status == 429 or "invalid" not in message(decode(raw)) and status == 400:
                wrong.append(f"{query[:60]}: {status} {raw[:100]}")
        statuses = []
        for i in range(100):
            connection, status, _ = open_slot(server, "one", f"kind=k{i}&units=0.1")
            connection.close()
            statuses.append(status)
        known = statuses.count(200)
        if not 60 <= known <= 64 or set(statuses[known:]) != {400}:
            wrong.append(f"of 100 kinds {known} are known, others get {set(statuses[known:])}")
        until, counts = threading.Event(), {}
        threads = [threading.Thread(target=flood_slots, args=(server, until, counts)) for _ in range(300)]
        for t in threads:
            t.start()
        time.sleep(2)
        waits = []
        try:
            for _ in range(20):
                begun = time.monotonic()
                connection, status, line = open_slot(server, "two", "kind=k0&units=0.1")
                waits.append(time.monotonic() - begun)
                connection.close()
                if status != 200 or b"true" not in line:
                    wrong.append(f"the other key gets {status} {line[:200]}")
            begun = time.monotonic()
            status, _ = server.request("POST", "/v1/audio/transcriptions", json.dumps({"model": "digits", "file": base64.b64encode(wave(data=bytes(160_000))).decode()}), 60, keyed("two"))
            heard = time.monotonic() - begun
        finally:
            until.set()
            with concurrent.futures.ThreadPoolExecutor(1):
                for t in threads:
                    t.join()
        end = time.monotonic() + 10
        while running(server) and time.monotonic() < end:
            time.sleep(0.1)
        left, more = running(server), grown(before, resident(server))
        held = not wrong and max(waits) < 5 and status == 200 and heard < 10 and left == 0 and more < 128
        return held, "; ".join(wrong) or (f"{sum(counts.values())} asked beside ({', '.join(f'{v} times {k}' for k, v in sorted(counts.items(), key=str))}); the other's slots within {max(waits):.1f} s, "
                                          f"its text {status} after {heard:.1f} s; {left:.0f} slots held afterwards, grown by {more} MiB")


ATTACKS = [lying_pictures, lying_sounds, slots]
