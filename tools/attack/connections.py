"""Attacks on the listener: connections that are opened, half used and never closed."""

import contextlib
import socket
import threading
import time

from server import Server

HALF = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n"


def opened(server, data, count):
    """Sockets on which data was sent, as many as could be had."""
    sockets = []
    for _ in range(count):
        try:
            sockets.append(server.raw(data, timeout=5))
        except OSError:
            break
    return sockets


def held_open(binary, data, count=1500, seconds=75, networks=(), **kwargs):
    with Server(binary, *networks, **kwargs) as server:
        server.wait_ready()
        sockets = opened(server, data, count)
        at_once = server.established()
        status = 0
        with contextlib.suppress(OSError):
            status = server.request("GET", "/health", timeout=10)[0]
        end = time.monotonic() + seconds
        while server.established() > 5 and time.monotonic() < end:
            time.sleep(1)
        left = server.established()
        for s in sockets:
            s.close()
        return left <= 5, f"{at_once} of {count} taken, /health {status or 'refused'} meanwhile, {left} open after {seconds - max(0, end - time.monotonic()):.0f} s"


def half_bodies(binary):
    """1,500 requests whose body never comes. Wanted: closed by the server within 75 s"""
    return held_open(binary, HALF)


def half_bodies_without_key(binary):
    """The same, without the key that the server asks for. Wanted: closed by the server within 75 s"""
    return held_open(binary, HALF, env={"PREFILLONLY_API_KEY": "secret"})


def half_headers(binary):
    """1,500 connections that send half a header. Wanted: closed by the server within 75 s"""
    return held_open(binary, b"GET /v1/models HTTP/1.1\r\nHost: x\r\nX-A: ")


def half_bodies_elsewhere(binary):
    """1,500 half-sent bodies to paths and methods that do not exist, and on GET. Wanted: closed by the server within 75 s"""
    return held_open(binary, b"GET /v1/models HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")


def slow_bytes(binary):
    """50 clients that send a body of 4 KB one byte a second. Wanted: closed within two minutes, others are served"""
    with Server(binary) as server:
        server.wait_ready()
        sockets = opened(server, HALF.replace(b"10\r\n", b"4096\r\n"), 50)
        start, status = time.monotonic(), 0
        while sockets and time.monotonic() - start < 120:
            for s in list(sockets):
                try:
                    s.send(b" ")
                except OSError:
                    sockets.remove(s)
            if not status:
                status = server.complete("beside")[0]
            time.sleep(1)
        return not sockets and status == 200, f"{len(sockets)} of 50 open after {time.monotonic() - start:.0f} s, a request beside them {status}"


def never_read(binary):
    """20 clients that ask for long streams and never read them, for 40 s. Wanted: no process over 512 MiB, others are served"""
    with Server(binary) as server:
        server.wait_ready()
        body = b'{"prompt":"a","max_tokens":8000,"stream":true,"ignore_eos":true,"logprobs":20}'
        request = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        sockets = []
        for _ in range(20):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.connect(("127.0.0.1", server.port))
            s.sendall(request)
            sockets.append(s)
        time.sleep(40)
        most = server.peak_memory()
        status = server.complete("beside", timeout=30)[0]
        for s in sockets:
            s.close()
        return status == 200 and most < 512 << 20, f"peak {most >> 20} MiB, a request beside them {status}"


def half_sent_at_sigterm(binary):
    """SIGTERM while one request's body is half sent. Wanted: exit code 0 within 15 s"""
    with Server(binary) as server:
        server.wait_ready()
        s = server.raw(HALF)
        time.sleep(0.5)
        code, seconds = server.terminate()
        s.close()
        return code == 0 and seconds < 15, f"exit code {code} after {seconds:.1f} s"


def half_closed(binary):
    """A client that closes its sending side after its request, as `nc -N` does. Wanted: it gets its answer"""
    with Server(binary) as server:
        server.wait_ready()
        body = b'{"prompt":"a b c","max_tokens":1}'
        s = server.raw(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        s.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(OSError):
            while part := s.recv(1 << 16):
                answer += part
        s.close()
        return b" 200 " in answer[:20], answer[:30].decode(errors="replace").strip() or "no answer"


def many_threads(binary):
    """64 threads that connect, send garbage and go, 20,000 times in all. Wanted: requests beside them are answered, no connection is left"""
    with Server(binary) as server:
        server.wait_ready()

        def garbage():
            for i in range(312):
                with contextlib.suppress(OSError):
                    server.raw(bytes([i % 256]) * (1 + i % 700)).close()

        threads = [threading.Thread(target=garbage) for _ in range(64)]
        for t in threads:
            t.start()
        beside = []
        while any(t.is_alive() for t in threads) and len(beside) < 200:
            try:
                beside.append(server.complete("beside", timeout=30)[0])
            except OSError:
                beside.append(0)
        for t in threads:
            t.join()
        time.sleep(2)
        left, good = server.established(), sum(b == 200 for b in beside)
        return left <= 2 and good == len(beside), f"{good} of {len(beside)} answered, {left} connections left"


def large_half_bodies(binary):
    """One key sends bodies of 64 MiB and less, the half of each and no more, until all are refused, while another sends one of 160 kB. Wanted: the other's is read at
    once, and the halves are refused or give their memory back within 15 s"""
    with Server(binary, env={"PREFILLONLY_API_KEY": "one,two"}) as server:
        server.wait_ready()
        head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer one\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        sockets = []
        for size in [64 << 20] * 8 + [1 << bits for bits in range(25, 15, -1) for _ in range(2)]:
            for s in opened(server, head % size, 1):
                s.settimeout(2)
                sockets.append(s)
                with contextlib.suppress(OSError):  # refused
                    s.sendall(b" " * (size // 2))
        body = {"prompt": "a" * 160_000, "max_tokens": 1}
        start = time.monotonic()
        status, text = server.request("POST", "/v1/completions", body, headers={"Authorization": "Bearer two"})
        took = time.monotonic() - start
        read = status == 400 and b"context" in (text if isinstance(text, bytes) else str(text).encode())
        while server.established() > 2 and time.monotonic() < start + 30:
            time.sleep(0.5)
        closed = time.monotonic() - start
        for s in sockets:
            s.close()
        return read and closed < 15, f"the other's body: {status} after {took:.1f} s, the halves closed after {closed:.1f} s"


ATTACKS = [large_half_bodies, half_bodies, half_bodies_without_key, half_headers, half_bodies_elsewhere, slow_bytes, never_read, half_sent_at_sigterm, half_closed, many_threads]
