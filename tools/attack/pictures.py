"""Attacks by pictures that are small and take long."""

import struct
import threading
import time
import zlib

from network import infer
from tensors import grown, resident, serving

PICTURE = {"Inference-Header-Content-Length": "0"}


def segment(marker, data):
    return b"\xff" + bytes([marker]) + struct.pack(">H", len(data) + 2) + data


def progressive(width, height, scans, between=b"", before=b""):
    """A grey JPEG of so many scans of nothing, each of a few bytes, with something before all of them and before each."""
    runs = -(-(-(-width // 8) * -(-height // 8)) // 32767)
    bits = ("0" + 14 * "1") * runs
    bits += "1" * (-len(bits) % 8)
    code = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")
    table = segment(0xC4, bytes([0x10, 1, *15 * [0], 0xE0]))
    first, more = (segment(0xDA, bytes([1, 1, 0, 1, 63, a])) + code for a in (0, 0x10))
    head = b"\xff\xd8" + segment(0xC2, struct.pack(">BHHB", 8, height, width, 1) + bytes([1, 0x11, 0])) + table
    return head + before + first + (between + more) * (scans - 1) + b"\xff\xd9"


def chunked(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def bombs():
    """(what, picture, statuses that are right)."""
    tables = segment(0xC4, bytes([0x10, 1, *15 * [0], 0xE0]))
    quantizers = segment(0xDB, bytes([0]) + bytes(64 * [1]))
    yield "20 scans of 6,000 x 4,000", progressive(6000, 4000, 20), (200,)
    yield "20,000 scans of 8K", progressive(7680, 4320, 20_000), (400,)
    yield "20,000 scans of 2,000 x 2,000", progressive(2000, 2000, 20_000), (400,)
    yield "2,000,000 scans of 64 x 64", progressive(64, 64, 2_000_000), (200, 400)
    yield "2,000,000 Huffman tables", progressive(64, 64, 1, before=tables * 2_000_000), (200, 400)
    yield "800,000 quantization tables", progressive(64, 64, 1, before=quantizers * 800_000), (200, 400)
    yield "900 comments of 64 KiB", progressive(64, 64, 1, before=segment(0xFE, bytes(65533)) * 900), (200, 400)
    rows = zlib.compress(bytes(65 * 64))
    head = b"\x89PNG\r\n\x1a\n" + chunked(b"IHDR", struct.pack(">IIBBBBB", 64, 64, 8, 0, 0, 0, 0))
    tail = chunked(b"IDAT", rows) + chunked(b"IEND", b"")
    gigabyte = zlib.compressobj(9)
    zeros = b"".join(gigabyte.compress(bytes(1 << 20)) for _ in range(1024)) + gigabyte.flush()
    yield "a zTXt of 1 GiB", head + chunked(b"zTXt", b"x\0\0" + zeros) + tail, (200, 400)
    yield "an iCCP of 1 GiB", head + chunked(b"iCCP", b"x\0\0" + zeros) + tail, (200, 400)
    yield "4,000,000 empty IDATs", head + chunked(b"IDAT", b"") * 4_000_000 + tail, (200, 400)
    yield "IDAT of 1 GiB", head + chunked(b"IDAT", zeros) + chunked(b"IEND", b""), (200, 400)


def picture_bombs(binary_):
    """JPEGs of 20,000 scans of 8K and of smaller pictures, of millions of Huffman and quantization tables, and PNGs whose texts, profiles and rows inflate to 1 GiB, to a network, beside frames of it.
    Wanted: a picture or 400 with the figures within 10 s each, the frames beside are answered, no process grows by 768 MiB"""
    with serving(binary_) as server:
        server.request("POST", "/v2/models/quick/infer", progressive(64, 64, 1), 60, PICTURE)
        before, going, beside, peaks = resident(server), True, [], []

        def others():
            while going:
                start = time.monotonic()
                ok = infer(server, "quick", len(beside)) == (200, True)
                beside.append(time.monotonic() - start if ok else 60)
                peaks.append(grown(before, resident(server)))
                time.sleep(0.1)

        thread = threading.Thread(target=others)
        thread.start()
        wrong, tried, slowest = [], 0, ("", 0.0)
        try:
            for what, picture, right in bombs():
                tried += 1
                start = time.monotonic()
                try:
                    status, answer = server.request("POST", "/v2/models/quick/infer", picture, 20, PICTURE)
                except OSError as error:
                    status, answer = 0, str(error).encode()
                took = time.monotonic() - start
                slowest = max(slowest, (what, took), key=lambda s: s[1])
                if status not in right or took > 10:
                    wrong.append(f"{what}: {status} after {took:.1f} s {answer[:120]!r}")
        finally:
            going = False
            thread.join()
        most = max(peaks, default=0)
        held = not wrong and most < 768 and max(beside) < 10
        return held, f"{tried} pictures, {len(wrong)} not as wanted {wrong[:3] or ''}, the slowest {slowest[0]} with {slowest[1]:.1f} s; {len(beside)} frames beside them, the longest {max(beside):.1f} s; grown by {most} MiB at most"


ATTACKS = [picture_bombs]
