"""Attacks by the sources of video streams: hosts that a server should not connect to, redirections without end, and secrets in URLs."""

import contextlib
import json
import pathlib
import socket
import tempfile
import threading
import time

from server import Server, decode, message

DETECTOR = pathlib.Path(__file__).resolve().parent.parent.parent / "videoext" / "scene" / "detector.onnx"
SECRET = "SECRETREST"


@contextlib.contextmanager
def watching(binary, *more, keys=("one", "two", "chief @admin")):
    """A server that keeps video streams, and whose log has all that it says."""
    with tempfile.TemporaryDirectory() as directory:
        config, key_file = pathlib.Path(directory, "models.yaml"), pathlib.Path(directory, "keys")
        config.write_text(f"models:\n- {{name: street, path: {DETECTOR}, decoder: fastestdet}}\n")
        key_file.write_text("\n".join(keys) + "\n")
        with Server(binary, "--config", str(config), "--api-key-file", str(key_file), "--log-level", "debug", *more) as server:
            if not server.wait_ready(60):
                raise RuntimeError("the server did not start")
            end = time.monotonic() + 60
            while ask(server, "GET", "streams")[0] == 503 and time.monotonic() < end:
                time.sleep(0.2)
            yield server


def ask(server, method, path, body=None, key="one"):
    status, raw = server.request(method, "/v1/video/" + path, body, headers={"Authorization": "Bearer " + key})
    return status, raw.decode()


def declare(server, name, source, key="one"):
    return ask(server, "POST", "streams", {"name": name, "source": source, "rate": 1}, key)


def until(server, name, holds, seconds=40):
    """The status of a stream for which that holds, or the last one."""
    end = time.monotonic() + seconds
    while True:
        text = ask(server, "GET", "streams/" + name)[1]
        if holds(json.loads(text)) or time.monotonic() > end:
            return text
        time.sleep(0.1)


class Redirecting:
    """An RTSP server that redirects whoever asks to itself, and counts. A context manager."""

    def __init__(self, to="rtsp://127.0.0.1:{port}/again"):
        self.listener, self.connections = socket.create_server(("127.0.0.1", 0)), 0
        self.port = self.listener.getsockname()[1]
        self.to = to.format(port=self.port)

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection, connection.makefile("rb") as lines:
            sequence = b"1"
            for line in lines:
                if line.lower().startswith(b"cseq:"):
                    sequence = line.split(b":")[1].strip()
                if line == b"\r\n":
                    with contextlib.suppress(OSError):
                        connection.sendall(b"RTSP/1.0 302 Found\r\nCSeq: %s\r\nLocation: %s\r\n\r\n" % (sequence, self.to.encode()))


def camera_redirects(binary):
    """A camera that redirects to itself without end, and one that redirects to another host, for 20 s.
    Wanted: a few connections with longer and longer pauses, none to the other host, and a reason; another key is told of no such stream"""
    with watching(binary) as server, Redirecting() as loop, Redirecting() as other, Redirecting(f"rtsp://localhost:{other.port}/") as away:
        declare(server, "loop", f"rtsp://127.0.0.1:{loop.port}/x")
        declare(server, "away", f"rtsp://127.0.0.1:{away.port}/x")
        time.sleep(20)
        reasons = [json.loads(ask(server, "GET", "streams/" + name)[1])["reason"] for name in ("loop", "away")]
        status, told = ask(server, "GET", "streams/away", key="two")
        held = 0 < loop.connections <= 40 and 0 < away.connections <= 10 and other.connections == 0 and "more than" in reasons[0] and "another host" in reasons[1]
        held = held and status == 404 and "another host" not in told
        return held, f"{loop.connections} and {away.connections} connections, {other.connections} to the other host; another key gets {status}"


def camera_reaches(binary):
    """Sources at link-local and metadata addresses, in 14 forms, by a key that is no admin's; and at loopback where --video-sources lists another network.
    Wanted: 400 each, without a connection and without asking DNS"""
    hosts = ["169.254.169.254", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[::a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::]", "[fe80::1%25lo]", "[fd00:ec2::254]",
             "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "100.100.100.200", "169.254.170.2"]
    with watching(binary) as server, watching(binary, "--video-sources", "10.0.0.0/8") as bounded, Redirecting() as there:
        codes = [declare(server, f"s{i}", f"rtsp://{host}/latest/meta-data")[0] for i, host in enumerate(hosts)]
        beyond = [declare(bounded, "s", f"rtsp://127.0.0.1:{there.port}/x", key)[0] for key in ("one", "chief")]
        held = codes == [400] * len(hosts) and beyond == [400, 400] and there.connections == 0
        return held, f"{codes.count(400)} of {len(hosts)} refused, beyond the list {beyond}, {there.connections} connections"


def camera_secrets(binary):
    """URLs of cameras with secrets in the password, the user, the path and the query, with raw # and @, and a camera that refuses.
    Wanted: no secret in a status, an error or the log; # and @ refused with the code to write"""
    shown = ["rtsp://admin:{}@127.0.0.1:1/x", "rtsp://{}@127.0.0.1:1/x", "rtsp://127.0.0.1:1/user=admin_password={}_channel=1.sdp", "rtsp://127.0.0.1:1/x?password={}", "rtsp://127.0.0.1:1/x?token={}"]
    refused = {"rtsp://admin:pre@{}#1@127.0.0.1:1/x": "%23", "rtsp://admin:p#{}@127.0.0.1:1/x": "%23", "rtsp://admin:p@{}@127.0.0.1:1/x": "%40", "rtsp://admin:p/{}@127.0.0.1:1/x": "%2F"}
    with watching(binary) as server:
        texts, held = [], True
        for i, source in enumerate(shown):
            code, text = declare(server, f"s{i}", source.format(SECRET))
            held = held and code == 201
            texts += [text, until(server, f"s{i}", lambda s: "refused" in s.get("reason", ""))]
        for source, hint in refused.items():
            code, text = declare(server, "r", source.format(SECRET))
            held = held and code == 400 and hint in message(decode(text.encode()))
            texts.append(text)
        texts += [ask(server, "GET", "streams", key=key)[1] for key in ("one", "two", "chief")]
        server.log.seek(0)
        texts.append(server.log.read())
        leaks = sum(SECRET in text for text in texts)
        return held and leaks == 0 and "refused" in texts[1], f"{leaks} of {len(texts)} texts with a secret; {len(refused)} URLs refused with the code to write"


ATTACKS = (camera_secrets, camera_reaches, camera_redirects)
