"""Sends a running server bursts of pictures with a deadline, each of so many times what it can do until then, and tells how many are
answered and which share of the processors' time went into requests that were not: pictures decoded and frames computed by its metrics.

    ffmpeg -f lavfi -i testsrc2=size=4000x3000 -frames:v 1 -q:v 3 photo.jpg
    prefillonly serve --model yolox_nano_416.onnx
    tools/measure/burst.py http://localhost:8000 yolox_nano_416 photo.jpg
    tools/measure/burst.py http://localhost:8000 yolox_nano_416 photo.jpg --workers   # instead: the rate of 1 to 8 workers
"""
import argparse
import collections
import json
import os
import pathlib
import re
import statistics
import threading
import time
import urllib.error
import urllib.request


def post(url, model, picture, deadline=None):
    headers = {"Inference-Header-Content-Length": "0", "Content-Type": "application/octet-stream"}
    if deadline:
        headers["X-Slo-Ttft-Ms"] = str(round(1000 * deadline))
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{url}/v2/models/{model}/infer", picture, headers), timeout=120) as answer:
            answer.read()
            return answer.status
    except urllib.error.HTTPError as e:
        return f"{e.code} {message(e.read())}"
    except OSError as e:
        return type(e).__name__


def message(body):
    """The words of an error, by which alike ones are counted."""
    try:
        error = json.loads(body)["error"]
        return re.sub(r"[0-9][0-9.,]*", "N", error if isinstance(error, str) else error["message"])
    except (ValueError, KeyError):
        return body[:80].decode(errors="replace")


def metrics(url, model):
    """Counts and seconds of pictures decoded and of frames computed. What ended at once was refused with its slot, before it began."""
    text = urllib.request.urlopen(url + "/metrics", timeout=30).read().decode()

    def total(name, *labels):
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if re.match(re.escape(name) + r"[{ ]", line) and all(label in line for label in labels))

    kind, of = 'kind="pictures"', f'model_name="{model}"'
    return collections.Counter({
        "decoded": total("prefillonly:cpu_stage_seconds_count", kind) - total("prefillonly:cpu_stage_seconds_bucket", kind, 'le="0.001"'), "decode_s": total("prefillonly:cpu_stage_seconds_sum", kind),
        "computed": total("prefillonly:frames_total", of), "compute_s": total("prefillonly:pass_seconds_total", of)})


def settled(url, model):
    """The metrics when they no longer change: those of the devices come once a second."""
    last = None
    while last != (last := metrics(url, model)):
        time.sleep(1.2)
    return last


def together(n, send):
    """What each of n that start at once returns, and how long all took."""
    out, start = [None] * n, threading.Barrier(n + 1)

    def run(i):
        start.wait()
        out[i] = send()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    start.wait()
    begun = time.time()
    for t in threads:
        t.join()
    return out, time.time() - begun


def send_for(url, model, picture, workers, seconds):
    """How many pictures so many workers send, each with one on its way, and how long that takes."""
    end = time.time() + seconds

    def send():
        n = 0
        while time.time() < end:
            n += post(url, model, picture) == 200
        return n

    counts, took = together(workers, send)
    return sum(counts), took


def processor_seconds(pid):
    """What a process and its children have had of processors."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    children = " ".join(p.read_text() for p in pathlib.Path(f"/proc/{pid}/task").glob("*/children")).split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + sum(processor_seconds(c) for c in children)


def compare_workers(url, model, picture, bursts, server):
    """The rate of 1 to 8 workers by turns, and what a picture takes of processors, which other programs beside change less."""
    rates, costs = collections.defaultdict(list), collections.defaultdict(list)
    for _ in range(bursts):
        for workers in range(1, 9):
            before = processor_seconds(server) if server else 0
            pictures, took = send_for(url, model, picture, workers, 4)
            rates[workers].append(pictures / took)
            if server:
                costs[workers].append((processor_seconds(server) - before) / max(1, pictures))
    for workers, list_ in rates.items():
        print(json.dumps({"workers": workers, "pictures_per_s": round(statistics.median(list_), 2), "processor_s": round(statistics.median(costs[workers] or [0]), 3),
                          "all": [round(r, 2) for r in list_], "all_processor_s": [round(c, 3) for c in costs[workers]]}), flush=True)


def burst(url, model, picture, n, deadline):
    before = settled(url, model)

    def send():
        begun = time.time()
        return post(url, model, picture, deadline), time.time() - begun

    answers, _ = together(n, send)
    d = settled(url, model)
    d.subtract(before)
    codes = collections.Counter(code for code, _ in answers)
    ok = codes[200]
    decode, compute = (d[s] / d[c] if d[c] else 0 for s, c in (("decode_s", "decoded"), ("compute_s", "computed")))
    vain = max(0, d["decoded"] - ok) * decode + max(0, d["computed"] - ok) * compute
    return {"pictures": n, "deadline_s": deadline, "answers": {str(k): v for k, v in codes.most_common()},
            "in_time": sum(code == 200 and took <= deadline for code, took in answers),
            "decoded": int(d["decoded"]), "computed": int(d["computed"]), "decode_ms": round(1000 * decode), "compute_ms": round(1000 * compute),
            "vain_share": round(vain / max(1e-9, d["decode_s"] + d["compute_s"]), 3)}


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("url")
    a.add_argument("model")
    a.add_argument("picture", type=pathlib.Path)
    a.add_argument("--pictures", type=int, default=50, help="of a burst")
    a.add_argument("--times", type=float, default=5, help="as many as two workers get done within the deadline, which is chosen so")
    a.add_argument("--bursts", type=int, default=4)
    a.add_argument("--pause", type=float, default=3, help="seconds between bursts")
    a.add_argument("--workers", action="store_true")
    a.add_argument("--server", type=int, help="the server's process, whose processor time --workers tells, too")
    o = a.parse_args()
    url, picture = o.url.rstrip("/"), o.picture.read_bytes()
    send_for(url, o.model, picture, 2, 2)
    if o.workers:
        compare_workers(url, o.model, picture, o.bursts, o.server)
        return
    for _ in range(o.bursts):
        sent, took = send_for(url, o.model, picture, 2, 6)
        can = max(1, sent) / took
        time.sleep(o.pause)
        print(json.dumps({"pictures_per_s": round(can, 2)} | burst(url, o.model, picture, o.pictures, round(o.pictures / o.times / can, 2))), flush=True)


if __name__ == "__main__":
    main()
