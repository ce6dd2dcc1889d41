"""Attacks by cameras: messages that stand for more than they say, and video that takes more than it shows."""

import base64
import contextlib
import json
import os
import pathlib
import socket
import struct
import subprocess
import threading
import time

import http2
from server import memory, peak
from sources import DETECTOR, ask, declare, until, watching

CLIP = DETECTOR.parents[1] / "media/ffmpeg/testdata/drawn.mp4"


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def said(kind, fields):
    """A message of a camera's session."""
    body = bytes([kind]) + struct.pack(">I", crc32c(bytes([kind]) + fields)) + fields
    return varint(len(body)) + body


def hello():
    return said(1, varint(3) + varint(96) + varint(64) + struct.pack("<d", 12) + varint(1) + b"c")


def skipped(segment, frames):
    return said(6, varint(segment) + varint(0) + varint(frames))


def begun(server, name, data):
    """A socket on which a camera's session has begun."""
    return server.raw(b"POST /v1/video/streams/%s/camera HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer one\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (name.encode(), len(data), data), 60)


def session(server, name, data):
    """What the server says in a camera's session, until it ends it."""
    with begun(server, name, data) as s:
        heard = b""
        while b"\r\n0\r\n\r\n" not in heard:
            piece = s.recv(1 << 16)
            if not piece:
                break
            heard += piece
        return heard


def held_by(server, how=memory):
    return sum(how(p) for p in server.children("video")) >> 20


def camera_gap(binary):
    """Behind an ordinary segment of a camera, one of 3,600 frames that says it is number 4,096, eight times; and a first message of 8 MiB.
    Wanted: the session ends with the figures, the stream goes on and is deleted within 5 s, the video process grows by no more than 128 MiB"""
    with watching(binary) as server:
        ask(server, "POST", "streams", {"name": "door", "source": "camera", "method": "mpeg"})
        before = held_by(server)
        refused = tries = 0
        while refused < 8 and tries < 16:  # a server that has just begun may end a session before it looks at it
            tries += 1
            refused += b"14742000 frames would be missing" in session(server, "door", hello() + skipped(0, 2) + skipped(4096, 3600))
        large = b"4096 are the most" in session(server, "door", varint(8 << 20) + bytes(1 << 16))
        grown = held_by(server, peak) - before
        frames = json.loads(until(server, "door", lambda s: s["frames"] == 2))["frames"]
        start = time.monotonic()
        status = ask(server, "DELETE", "streams/door")[0]
        took = time.monotonic() - start
        held = refused == 8 and large and frames == 2 and status == 200 and took < 5 and grown <= 128
        return held, f"{refused} of 8 refused by their figures, the long message {'refused' if large else 'read'}; deleted in {took:.1f} s, grown by {grown} MiB"


def camera_hasty(binary):
    """A camera that says it has 12 frames a second sends 4,000 in one second, in segments of one, and hangs up after 10 s.
    Wanted: results of no more than it may be behind by and four times its rate, all that are too many told as dropped, a file beside it without a drop"""
    with watching(binary, "--video-files", str(CLIP.parent)) as server:
        ask(server, "POST", "streams", {"name": "door", "source": "camera", "method": "mpeg"})
        ask(server, "POST", "streams", {"name": "clip", "source": CLIP.name, "loop": True, "rate": 2})
        until(server, "clip", lambda s: s["frames"] > 0)
        start = time.monotonic()
        with begun(server, "door", hello() + b"".join(skipped(n, 1) for n in range(4000))):
            time.sleep(10)
            door, clip = (json.loads(ask(server, "GET", f"streams/{name}")[1]) for name in ("door", "clip"))
            most = 170 + 4 * 12.24 * (time.monotonic() - start) + 1
        held = 0 < door["dropped"] < door["frames"] <= most and clip["dropped"] == 0
        return held, f"{door['frames']} results, {door['dropped']} of them dropped; the file beside it {clip['frames']}, {clip['dropped']} dropped; {door.get('reason', '')}"


def opened(number, name):
    """A camera's session as a stream of HTTP/2."""
    path, key = b"/v1/video/streams/%s/camera" % name.encode(), b"Bearer one"
    block = b"\x83\x86\x04" + bytes([len(path)]) + path + b"\x01\x01x\x0f\x08" + bytes([len(key)]) + key
    return http2.frame(http2.HEADERS, 4, number, block)


def camera_http2(binary):
    """Beside a camera's program that streams by HTTP/2, 40 connections of HTTP/2 open 50 sessions each of another stream, of which the first message, or a segment, comes by half, and then RST_STREAM; 40 more keep their half sessions open, and go.
    Wanted: the program's frames go on and none is dropped, the other stream takes a session afterwards and is deleted within 5 s, the video process grows by no more than 128 MiB"""
    with watching(binary) as server:
        for name in ("door", "gate"):
            ask(server, "POST", "streams", {"name": name, "source": "camera", "method": "mpeg"})
        camera = subprocess.Popen([pathlib.Path(binary).parent / "camera", "run", "--server", f"http://127.0.0.1:{server.port}", "--stream", "gate", "--source", CLIP, "--loop"],
                                  env={**os.environ, "PREFILLONLY_API_KEY": "one"}, stdout=server.log, stderr=server.log)
        try:
            until(server, "gate", lambda s: s["frames"] > 24)
            before, seen = held_by(server), json.loads(ask(server, "GET", "streams/gate")[1])["frames"]
            whole, large = hello(), varint(1 << 20) + bytes([2]) + bytes(1 << 13)
            parts = (whole[:5], whole[:-1], whole + large[:1], whole + large, whole + skipped(0, 2)[:-3])
            resets, answers, most, kept = 0, 0, 0, []
            for n in range(80):
                with contextlib.suppress(OSError):
                    s = http2.connect(server)
                    kept.append(s)
                    for i in range(50):
                        s.sendall(opened(2 * i + 1, "door") + http2.frame(http2.DATA, 0, 2 * i + 1, parts[(n + i) % len(parts)]))
                        if n < 40:
                            s.sendall(http2.frame(http2.RST, 0, 2 * i + 1, struct.pack(">I", 8)))
                            resets += 1
                    s.settimeout(0.05)
                    with contextlib.suppress(TimeoutError):
                        answers += len(s.recv(1 << 16)) > 0
                    if n < 40:
                        s.close()
                most = max(most, held_by(server, peak))
            time.sleep(3)
            for s in kept:
                s.close()
            with begun(server, "door", hello() + skipped(0, 2)):
                frames = json.loads(until(server, "door", lambda s: s["frames"] == 2))["frames"]
            gate = json.loads(until(server, "gate", lambda s: s["frames"] > seen + 60))
            start = time.monotonic()
            status = ask(server, "DELETE", "streams/door")[0]
            took, grown = time.monotonic() - start, max(most, held_by(server, peak)) - before
        finally:
            camera.terminate()
            camera.wait(20)
        held = resets == 2000 and frames == 2 and gate["frames"] > seen + 60 and not gate.get("dropped") and status == 200 and took < 5 and grown <= 128
        return held, f"{resets} sessions reset by half, 2,000 kept open; the other stream has {frames} frames, the program's went from {seen} to {gate['frames']}, {gate.get('dropped', 0)} dropped; deleted in {took:.1f} s, grown by {grown} MiB"


class Bits:
    """Syntax elements of H.264."""

    def __init__(self):
        self.text = []

    def u(self, n, value):
        self.text.append(f"{value:0{n}b}")
        return self

    def ue(self, *values):
        for v in values:
            digits = f"{v + 1:b}"
            self.text.append("0" * (len(digits) - 1) + digits)
        return self

    def nal(self, kind):
        text = "".join(self.text) + "1"
        text += "0" * (-len(text) % 8)
        out, zeros = bytearray([kind]), 0
        for c in int(text, 2).to_bytes(len(text) // 8, "big"):
            if zeros >= 2 and c <= 3:
                out.append(3)
                zeros = 0
            out.append(c)
            zeros = zeros + 1 if c == 0 else 0
        return bytes(out)


COLUMNS, ROWS, REFERENCES = 480, 270, 16  # macroblocks of 8K, and the most frames to predict from


def sets():
    s = Bits().u(24, 66 << 16 | 62).ue(0, 0, 2, REFERENCES).u(1, 0).ue(COLUMNS - 1, ROWS - 1).u(4, 0b1100)
    p = Bits().ue(0, 0).u(2, 0).ue(0, 0, 0).u(3, 0).ue(0, 0, 0).u(3, 0b100)
    return s.nal(0x67), p.nal(0x68)


def picture(number):
    """NAL units of a grey frame: all of it, or of the one before it."""
    if number:
        return [Bits().ue(0, 5, 0).u(4, number % 16).u(3, 0).ue(0, 1, COLUMNS * ROWS).nal(0x61)]
    rows = 54
    return [Bits().ue(row * COLUMNS, 7, 0).u(4, 0).ue(0).u(2, 0).ue(0, 1).u(8 * rows * COLUMNS, int("00100111" * rows * COLUMNS, 2)).nal(0x65) for row in range(0, ROWS, rows)]


class Camera:
    """An RTSP server of frames of 8K at 5 in a second, of so many tracks. A context manager."""

    def __init__(self, tracks=1):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"rtsp://127.0.0.1:{self.listener.getsockname()[1]}/x"
        self.sets = sets()
        self.frames = [[*self.sets, *picture(0)], *(picture(i) for i in range(1, 100))]
        track = "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode=1;sprop-parameter-sets=%s\r\na=control:t\r\n" % ",".join(base64.b64encode(n).decode() for n in self.sets)
        self.description = ("v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nt=0 0\r\n" + track * tracks).encode()

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.serve, args=(self.listener.accept()[0],), daemon=True).start()

    def serve(self, connection):
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as lines:
            method, sequence = b"", b"1"
            for line in lines:
                if line.lower().startswith(b"cseq:"):
                    sequence = line.split(b":")[1].strip()
                elif line.endswith(b" RTSP/1.0\r\n"):
                    method = line.split()[0]
                elif line == b"\r\n":
                    body = self.description if method == b"DESCRIBE" else b""
                    more = {b"DESCRIBE": b"Content-Type: application/sdp\r\n", b"SETUP": b"Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n"}.get(method, b"")
                    connection.sendall(b"RTSP/1.0 200 OK\r\nCSeq: %s\r\nSession: 1\r\n%sContent-Length: %d\r\n\r\n%s" % (sequence, more, len(body), body))
                    if method == b"PLAY":
                        self.play(connection)

    def play(self, connection):
        number = 0
        for i, frame in enumerate(self.frames):
            for j, unit in enumerate(frame):
                packet = struct.pack(">BBHII", 0x80, 96 | 0x80 * (j == len(frame) - 1), number & 0xFFFF, i * 18000, 1) + unit
                connection.sendall(b"$\0" + struct.pack(">H", len(packet)) + packet)
                number += 1
            time.sleep(0.2)


def camera_memory(binary):
    """Under --video-memory 3GiB, six cameras of 8K with 16 references that ask for a frame in 20 s, and one that describes 20,000 tracks, for 20 s.
    Wanted: one is read, five are refused with what they take and what is left, and the last by its tracks; the video process stays below 2 GiB"""
    with watching(binary, "--video-memory", "3GiB") as server, Camera() as camera, Camera(20_000) as tracks:
        for i in range(6):
            ask(server, "POST", "streams", {"name": f"c{i}", "source": camera.url, "rate": 0.05})
        declare(server, "tracks", tracks.url)
        why = json.loads(until(server, "tracks", lambda s: s.get("reason"))).get("reason", "")
        time.sleep(20)
        reasons = [json.loads(ask(server, "GET", f"streams/c{i}")[1]).get("reason", "") for i in range(6)]
        refused = sum("MiB of memory, and" in r for r in reasons)
        most = held_by(server, peak)
        held = refused == 5 and "more than 16 tracks" in why and most < 2 << 10
        return held, f"{refused} of 6 refused by memory, 20,000 tracks {'refused' if 'tracks' in why else 'read'}; the video process had {most} MiB at most"


ATTACKS = (camera_gap, camera_hasty, camera_http2, camera_memory)
