"""Attacks by the wall clock: it is set forwards and backwards while everything runs."""

import contextlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import threading
import time

import network
from batches import Batches, line, once
from files import DEMO
from server import ROLES, descendants, message
from sources import DETECTOR

HERE = pathlib.Path(__file__).resolve().parent
CLIP = HERE.parents[1] / "videoext/media/ffmpeg/testdata/drawn.mp4"
HOUR = 3600
KEY = {"Authorization": "Bearer one"}


class Clock:
    """What moves the wall clock of processes that are started with its environment, by clock.c."""

    def __init__(self, directory):
        library, self.path = os.path.join(directory, "clock.so"), os.path.join(directory, "offset")
        subprocess.run(["cc", "-O2", "-fPIC", "-shared", "-o", library, HERE / "clock.c"], check=True)
        self.env = {"LD_PRELOAD": library, "CLOCK_OFFSET": self.path}
        pathlib.Path(self.path).write_bytes(bytes(8))

    def set(self, seconds):
        with open(self.path, "r+b") as f:
            f.write(struct.pack("<q", seconds * 10**9))


class Work:
    """Clients of all that has deadlines, until closed: completions, frames with a deadline of 20 s, a stream of tokens again and again."""

    def __init__(self, server):
        self.server, self.going, self.done, self.wrong, self.created = server, True, {}, [], 0
        self.threads = [threading.Thread(target=self.run, args=(f,)) for f in (self.completion, self.frame, self.tokens)]
        for t in self.threads:
            t.start()

    def run(self, one):
        while self.going:
            start = time.monotonic()
            try:
                wrong = one()
            except OSError as error:
                wrong = f"{type(error).__name__} {error}"
            took = time.monotonic() - start
            if wrong or took > 60:
                self.wrong.append(f"{one.__name__} after {took:.0f} s: {wrong}")
            self.done[one.__name__] = self.done.get(one.__name__, 0) + 1
            time.sleep(0.02)

    def completion(self):
        status, body = self.server.complete("a b c", model="llm", headers=KEY)
        self.created = body.get("created", 0)
        return "" if status == 200 else f"{status} {message(body)}"

    def frame(self):
        values, want = network.frame(3)
        body, headers = network.binary(values, timeout=20 * 10**6)
        status, answer = self.server.request("POST", "/v2/models/quick/infer", body, 60, {**headers, **KEY})
        return "" if status == 200 and answer.endswith(want) else f"{status} {answer[:200]}"

    def tokens(self):
        body = {"model": "llm", "prompt": "on and on", "max_tokens": 400, "ignore_eos": True, "stream": True}
        status, answer = self.server.request("POST", "/v1/completions", body, 60, KEY)
        return "" if status == 200 and answer.endswith(b"data: [DONE]\n\n") else f"{status} {answer[-200:]}"

    def close(self):
        self.going = False
        for t in self.threads:
            t.join(90)


@contextlib.contextmanager
def everything(binary, clock, directory):
    """A server of a language model, a network and a detector that keeps batches and streams, all by that clock."""
    config, clips = pathlib.Path(directory, "models.yaml"), pathlib.Path(directory, "clips")
    clips.mkdir()
    shutil.copy(CLIP, clips)
    models = {"llm": DEMO, "quick": network.write(directory + "/quick.onnx")}
    config.write_text("models:\n" + "".join(f"- {{name: {n}, path: {p}, keep: always}}\n" for n, p in models.items()) + f"- {{name: street, path: {DETECTOR}, decoder: fastestdet, keep: always}}\n")
    os.environ.update(clock.env)
    try:
        server = Batches(binary, "--config", str(config), "--video-files", str(clips))
    finally:
        for name in clock.env:
            del os.environ[name]
    with server:
        if not server.wait_ready(60):
            raise RuntimeError("the server did not start")
        yield server


def stream(server, name):
    return json.loads(server.ask("GET", f"/v1/video/streams/{name}")[1])


def clock_jumps(binary):
    """The wall clock of all processes goes forward by an hour, back by two, forward by 25, back by three days, back to now, and forward by ten years, every 3 s, under completions, frames with deadlines, streams of tokens, a batch with a window of a day, a stream of a file and a camera's.
    Wanted: each is answered, no deadline ends anything, the streams go on with every frame, the batch is completed with each line once, no process is started again"""
    jumps, n = [HOUR, -HOUR, 24 * HOUR, -48 * HOUR, 0, 10 * 365 * 24 * HOUR], 25_000
    with tempfile.TemporaryDirectory(prefix="attack-") as directory:
        clock = Clock(directory)
        with everything(binary, clock, directory) as server:
            for body in ({"name": "file", "source": CLIP.name, "loop": True, "rate": 4}, {"name": "door", "source": "camera", "method": "mpeg"}):
                status, raw = server.ask("POST", "/v1/video/streams", json.dumps(body))
                if status != 201:
                    return False, f"a stream: {status} {raw[:200]}"
            camera = subprocess.Popen([pathlib.Path(binary).parent / "camera", "run", "--server", f"http://127.0.0.1:{server.port}", "--stream", "door", "--source", CLIP, "--loop"],
                                      env={**os.environ, **clock.env, "PREFILLONLY_API_KEY": "one"}, stdout=server.log, stderr=server.log)
            work = None
            try:
                before = [server.children(r) for r in ROLES] + [len(descendants(server.process.pid))]
                status, b = server.create("".join(line(i, model="llm") for i in range(n)))
                if status != 200:
                    return False, f"a batch: {status} {message(b)}"
                work, stood, unmoved = Work(server), [], []
                frames = {name: 0 for name in ("file", "door")}
                time.sleep(3)
                for jump in jumps:
                    clock.set(jump)
                    time.sleep(3)
                    for name in frames:
                        seen = stream(server, name)["frames"]
                        if seen <= frames[name]:
                            stood.append(f"{name} at {jump}: {seen} frames")
                        frames[name] = seen
                    if abs(work.created - time.time() - jump) > 10:
                        unmoved.append(jump)
                work.close()
                running, done = server.batch(b["id"])["status"] == "in_progress", server.ended(b["id"], 200)
                wrong = once(server.answers(done), n)
                lost = {name: stream(server, name).get("dropped", {}) for name in frames}
                after = [server.children(r) for r in ROLES] + [len(descendants(server.process.pid))]
            finally:
                camera.terminate()
                camera.wait(20)
                if work:
                    work.close()
        held = not (work.wrong or stood or unmoved or wrong or any(lost.values())) and running and done["status"] == "completed" and before == after
        return held, f"{work.done} answered, {len(work.wrong)} not {work.wrong[:2]}; frames {frames}, dropped {lost}, standing {stood}; batch {'that ran on ' if running else 'that had ended: '}{done['status']}, {wrong or 'each line once'}; clocks not moved {unmoved}; the same processes: {before == after}"


ATTACKS = [clock_jumps]
