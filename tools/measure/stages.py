"""Replays the settings of the report on asynchronous pre- and postprocessing on real processes: images and sounds whose work on
processors waits for a slot of a server (tools/clients/stages.py), and whose passes for a device apart, of
which only is known how long passes are away. Every system gets the same arrivals.

    tools/measure/stages.py [bin/prefillonly] [--requests 60] [--sounds 20]

A1, A2 and B1 are at 1.0, 1.2 and 1.0 of the processors; tight at 1.47 with goals of a third. os: nobody asks for a slot. fifo and slo: the report's, with one slot. on-time: the server's default.
"""
import argparse
import json
import multiprocessing as mp
import os
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "clients"))
from stages import Refused, slot  # noqa: E402

CPU, DEVICE = "cpu", "device"
# The medians of the report's figures: seconds of a processor or of the device.
IMAGE = [(CPU, "pre", .08), (DEVICE, "detect", .13), (CPU, "crop", .22), (DEVICE, "recognise", .03), (CPU, "post", .002)]
SOUND = [(CPU, "load", .9), (CPU, "pre", 2.45), (DEVICE, "hear", .3), (CPU, "post", .002)]
SYSTEMS = {"os": None, "fifo cap 1": ["--cpu-slots", "1", "--cpu-policy", "fifo", "--cpu-express=false"],
           "slo cap 1": ["--cpu-slots", "1", "--cpu-policy", "slo", "--lost-cause-threshold", "10s", "--cpu-express=false"],
           "on-time": ["--cpu-slots", str(os.cpu_count())]}


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


class Device:
    """Takes two passes at a time. What is known of it is how long passes are away."""

    def __init__(self, parts):
        self.free = mp.Semaphore(2)
        self.away = {name: mp.Value("d", seconds) for where, name, seconds in parts if where == DEVICE}

    def run(self, name, seconds):
        asked = time.time()
        with self.free:
            waited = time.time() - asked
            time.sleep(seconds)
        with self.away[name].get_lock():
            self.away[name].value += (time.time() - asked - self.away[name].value) / 4
        return waited

    def rest(self, parts):
        return {name: self.away[name].value if where == DEVICE else seconds for where, name, seconds in parts}


def play(server, device, parts, goal, at, lengths, out):
    """One request, in a process that was there before it."""
    time.sleep(max(0, at - time.time()))
    waits, begun, state = {}, {}, "ok"
    for i, ((where, name, _), seconds) in enumerate(zip(parts, lengths)):
        asked = time.time()
        if where == DEVICE:
            waits[name] = device.run(name, seconds)
        elif server is None:
            burn(seconds)
            waits[name] = time.time() - asked - seconds
        else:
            try:
                with slot(server, name, max(1, round(seconds * 100)), max(.001, at + goal - asked), device.rest(parts[i + 1:])):
                    waits[name] = time.time() - asked
                    burn(seconds)
            except (Refused, ConnectionError, ValueError) as e:
                state = "refused" if i == 0 else "dropped"
                break
        begun[name] = time.time() - asked
    out.put((time.time() - at, goal, state, waits))


def serve(binary, flags):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    slots = flags[1]
    p = subprocess.Popen([binary, "serve", "--port", str(port), "--cpu-slots-external", slots, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    for _ in range(300):
        try:
            urllib.request.urlopen(url + "/ready", timeout=1)
            return p, url
        except OSError:
            time.sleep(.1)
    raise SystemExit("the server is not ready after 30 s")


def run(binary, flags, parts, goals, load, n, seed):
    rng = random.Random(seed)
    gap = sum(s for w, _, s in parts if w == CPU) / os.cpu_count() / load
    at, requests = 0.0, []
    for _ in range(n):
        at += rng.expovariate(1 / gap)
        requests.append((at, rng.choice(goals), [s * rng.lognormvariate(-.043, .29) for _, _, s in parts]))
    server, url = (None, None) if flags is None else serve(binary, flags)
    device, out = Device(parts), mp.Queue()
    start = time.time() + 1.5
    workers = [mp.Process(target=play, args=(url, device, parts, goal, start + at, lengths, out)) for at, goal, lengths in requests]
    for w in workers:
        w.start()
    done = [out.get() for _ in workers]
    for w in workers:
        w.join()
    if server:
        server.send_signal(signal.SIGINT)
        server.wait()
    late = sum(state != "ok" or took > 1.1 * goal for took, goal, state, _ in done)
    ok = [took for took, _, state, _ in done if state == "ok"]
    return {"late": late, "of": n, "refused": sum(s == "refused" for _, _, s, _ in done), "dropped": sum(s == "dropped" for _, _, s, _ in done),
            "median_s": round(statistics.median(ok), 2) if ok else None,
            "waits_s": {name: round(statistics.median([w[name] for *_, w in done if name in w] or [0]), 3) for _, name, _ in parts}}


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("binary", nargs="?", default="bin/prefillonly")
    a.add_argument("--requests", type=int, default=60)
    a.add_argument("--sounds", type=int, default=20)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--setting", help="only settings whose names have this in them")
    o = a.parse_args()
    for setting, parts, goals, load, n in [("A1", IMAGE, [3, 5, 7, 9], 1.0, o.requests), ("A2", IMAGE, [3, 5, 7, 9], 1.2, o.requests),
                                           ("A2 tight", IMAGE, [1, 1.67, 2.33, 3], 1.47, o.requests), ("B1", SOUND, [6, 8, 10, 12], 1.0, o.sounds)]:
        if o.setting and o.setting not in setting:
            continue
        for system, flags in SYSTEMS.items():
            print(json.dumps({"setting": setting, "load": load, "system": system} | run(o.binary, flags, parts, goals, load, n, o.seed)), flush=True)


if __name__ == "__main__":
    main()
