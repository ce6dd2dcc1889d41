"""Measures what a batch file does to live requests, and what it leaves idle.

    python3 tools/measure/lowest.py URL RATE SECONDS TURNS COMMAND...

COMMAND is prefillonly run-batch -i FILE -o ANSWERS --scheduler-endpoint ENDPOINT MODEL. Live completions of one token, with
prompts of WORDS words (a variable of the environment; default 30), come at RATE a second, at random times; in every other
turn of SECONDS the command runs beside. Prints the P50 and P99 of the live ones with and without it, the ratios, and of the
turns with it how much of the time no pass ran (prefillonly:pass_seconds_total, which counts a pass when it has ended: turns
are to be many passes long).
"""

import http.client
import json
import os
import random
import re
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

url, rate, seconds, turns, command = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), sys.argv[5:]
answers = command[command.index("-o") + 1]
host = urllib.parse.urlsplit(url).netloc
WORDS = "the ship left its harbour with grain and salt before dawn while rain fell over many low hills near an old town".split()


def prompt(seed):
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) for _ in range(int(os.environ.get("WORDS", "30"))))


def ask(connection, seed, priority):
    body = {"prompt": prompt(seed), "max_tokens": 1, "priority": priority}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    return answer.status, text


def figure(name):
    text = urllib.request.urlopen(url + "/metrics").read().decode()
    return sum(float(v) for v in re.findall(rf"^{name}{{.*}} (\S+)$", text, re.M))


def quantile(values, q):
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]


class Lines:
    """prefillonly run-batch over a file, until it is stopped."""

    def __init__(self):
        for f in (answers, answers + ".partial"):
            if os.path.exists(f):
                os.remove(f)
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.done = sum(1 for _ in open(answers + ".partial"))


def live(turn, found):
    """Sends live requests at random times, each in a thread of its own."""
    rng, began, threads = random.Random(turn // 2), time.perf_counter(), []
    at = 0.0

    def one(seed):
        connection = http.client.HTTPConnection(host)
        start = time.perf_counter()
        status, text = ask(connection, seed, 0)
        found.append(time.perf_counter() - start)
        if status != 200:
            print("live:", status, text, file=sys.stderr)

    while (at := at + rng.expovariate(rate)) < seconds:
        time.sleep(max(0, began + at - time.perf_counter()))
        threads.append(threading.Thread(target=one, args=(f"live {turn} {at} {time.time()}",)))
        threads[-1].start()
    for t in threads:
        t.join()


took, idle, lines = {False: [], True: []}, [], 0
for turn in range(turns):
    beside, found = turn % 2 == 1, []
    batch = Lines() if beside else None
    if batch:
        time.sleep(2)  # until the first passes have ended
    began, passes = time.perf_counter(), figure("prefillonly:pass_seconds_total")
    live(turn, found)
    spent, ran = time.perf_counter() - began, figure("prefillonly:pass_seconds_total") - passes
    took[beside] += found
    if batch:
        idle.append(max(0, 1 - ran / spent))
        batch.stop()
        lines += batch.done
    print(f"{'beside lines' if beside else 'alone       '} {len(found)} live, P50 {1e3 * statistics.median(found):.1f} ms, P99 {1e3 * quantile(found, .99):.1f} ms, "
          f"passes {100 * ran / spent:.1f} % of the time", flush=True)
p = {b: [quantile(took[b], q) for q in (.5, .99)] for b in took}
print(f"{rate:g} live/s: P50 {1e3 * p[False][0]:.1f} to {1e3 * p[True][0]:.1f} ms, {p[True][0] / p[False][0]:.2f} times; P99 {1e3 * p[False][1]:.1f} to {1e3 * p[True][1]:.1f} ms, "
      f"{p[True][1] / p[False][1]:.2f} times; {lines} lines, idle {100 * statistics.mean(idle):.1f} % of the time beside them")
