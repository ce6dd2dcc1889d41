"""Attacks by HTTP/2: streams that nobody reads, and frames that ask for nothing."""

import contextlib
import http.client
import resource
import socket
import struct
import threading
import time

from server import Server, memory

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
NO_WINDOW = struct.pack(">HI", 4, 0)  # as a setting: no byte of an answer may come


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def request(path):
    """A header block of GET."""
    return b"\x82\x86\x04" + bytes([len(path)]) + path + b"\x01\x01x"


def get(stream, path):
    return frame(HEADERS, 5, stream, request(path))


def connect(server, settings=b""):
    return server.raw(PREFACE + frame(SETTINGS, 0, 0, settings), timeout=10)


def beside(server, seconds, key=None):
    """The longest that a client of another address waits in that time, and how many of its answers were not 200."""
    end, longest, wrong = time.monotonic() + seconds, 0.0, 0
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    while time.monotonic() < end:
        start = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60, source_address=("127.0.0.2", 0))
        try:
            connection.request("POST", "/v1/completions", '{"prompt":"beside","max_tokens":1}', headers)
            wrong += connection.getresponse().status != 200
        except OSError:
            wrong += 1
        finally:
            connection.close()
        longest = max(longest, time.monotonic() - start)
        time.sleep(0.2)
    return longest, wrong


def unread(binary, connections, streams, path, key=None):
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    with Server(binary, env={"PREFILLONLY_API_KEY": key} if key else {}) as server:
        server.wait_ready()
        frontend = server.children("frontend")[0]
        before, sockets = memory(frontend), []

        def ask():
            for _ in range(connections):
                with contextlib.suppress(OSError):
                    s = connect(server, NO_WINDOW)
                    sockets.append(s)
                    s.sendall(b"".join(get(2 * i + 1, path) for i in range(streams)))

        asking = threading.Thread(target=ask)
        asking.start()
        longest, wrong = beside(server, 10, key)
        asking.join()
        most = memory(frontend)
        code, seconds = server.terminate()
        for s in sockets:
            s.close()
        held = wrong == 0 and longest < 5 and most < 512 << 20 and code == 0 and seconds < 35
        return held, f"the frontend took {before >> 20}, then {most >> 20} MiB; beside them a client waited {longest:.1f} s at most, {wrong} not answered; at SIGTERM exit code {code} after {seconds:.1f} s"


def http2_unread(binary):
    """30 connections of HTTP/2 with 200 requests each for /openapi.json and no window, so that no answer can be sent; then SIGTERM. Wanted: below 512 MiB, others are answered within 5 s, exit code 0 in the drain's time"""
    return unread(binary, 30, 200, b"/openapi.json")


def http2_unread_without_key(binary):
    """The same by 660 connections without the key that the server asks for. Wanted: the same"""
    return unread(binary, 660, 200, b"/v1/models", key="secret")


FLOODS = {
    "PRIORITY": lambda i: frame(PRIORITY, 0, 2 * i + 1, b"\0\0\0\0\1"),
    "WINDOW_UPDATE": lambda i: frame(WINDOW, 0, 0, b"\0\0\0\1"),
    "SETTINGS": lambda i: frame(SETTINGS),
    "SETTINGS that move every window": lambda i: frame(SETTINGS, 0, 0, struct.pack(">HI", 4, i % 2)),
    "PING": lambda i: frame(PING, 0, 0, bytes(8)),
    "RST_STREAM": lambda i: get(2 * i + 3, b"/v1/models") + frame(RST, 0, 2 * i + 3, b"\0\0\0\x08"),
    "CONTINUATION": lambda i: frame(CONTINUATION, 0, 1) if i else frame(HEADERS, 1, 1, request(b"/health")),
    "empty DATA": lambda i: frame(DATA, 0, 1) if i else frame(HEADERS, 4, 1, request(b"/health").replace(b"\x82", b"\x83")),
    "unknown": lambda i: frame(0x42, 0, 0, b"x"),
}


def flood(server, one, seconds):
    """How many of one's frames are taken before the connection is closed, in that time; and whether it was."""
    s, sent, end = connect(server), 0, time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            s.settimeout(seconds)
            s.sendall(b"".join(one(sent + i) for i in range(100)))
            sent += 100
            s.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while part := s.recv(1 << 16):
                    del part
                return sent, True  # the end of what the server sends
    except OSError:
        return sent, True
    finally:
        s.close()
    return sent, False


def http2_floods(binary):
    """Frames that ask for nothing, as fast as they go, for 10 s a kind: PRIORITY, WINDOW_UPDATE, SETTINGS, PING, RST_STREAM, CONTINUATION, empty DATA, and of no known kind. Wanted: each is cut off, others are answered"""
    with Server(binary) as server:
        server.wait_ready()
        said, held = [], True
        for name, one in FLOODS.items():
            sent, cut = flood(server, one, 10)
            said.append(f"{name} {'cut off after' if cut else 'not cut off,'} {sent:,}")
            held = held and cut
        status = server.complete("beside", timeout=30)[0]
        return held and status == 200, f"{'; '.join(said)}; a request after them {status}"


ATTACKS = [http2_unread, http2_unread_without_key, http2_floods]
