"""Attacks on networks: tensors and pictures that lie, deadlines, streams, crashes and unloading under requests."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import signal
import struct
import tempfile
import threading
import time
import zlib

import connections
from network import ELEMENTS, SHAPE, binary, frame, infer, write
from server import ROLES, Server, memory

DEMO = pathlib.Path(__file__).resolve().parent.parent.parent / "engine" / "demo" / "files"


@contextlib.contextmanager
def serving(binary_, *more, demo=False, **kwargs):
    """A server of the networks quick and slow, and of the demo model beside them."""
    with tempfile.TemporaryDirectory() as directory:
        names = [f"quick={write(directory + '/quick.onnx')}", f"slow={write(directory + '/slow.onnx', 200)}", *([f"demo={DEMO}"] if demo else [])]
        with Server(binary_, *names, *more, **kwargs) as server:
            if not server.wait_ready(60):
                raise RuntimeError("the server did not start")
            yield server


def resident(server):
    return {role: sum(memory(p) for p in server.children(role)) for role in ROLES}


def grown(before, after):
    """By how many MiB the role grew that grew the most."""
    return max(after[r] - before[r] for r in ROLES) >> 20


def png(width, height):
    """A PNG of one grey bit a pixel, whose pixels would be zeros: a few hundred bytes for each 10^6 of them."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compressobj(9)
    data = b"".join(rows.compress(bytes(1 + (width + 7) // 8)) for _ in range(min(height, 20000))) + rows.flush()
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def lies():
    """(what, body, headers, what the refusal names) of requests that are wrong."""
    values, _ = frame(1)
    size = len(values)

    def with_json(cut=0, header=None, tail=values, **fields):
        head = json.dumps({"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, *SHAPE], "parameters": {"binary_data_size": size}, **fields}]}).encode()
        body = head + tail
        return body[: len(body) - cut], {"Inference-Header-Content-Length": str(len(head) if header is None else header)}

    yield "a wrong name", *with_json(name="picture"), "image"
    yield "a name of 1 MB", *with_json(name="x" * 1_000_000), "image"
    yield "a wrong datatype", *with_json(datatype="INT32"), "FP32"
    yield "a datatype that is none", *with_json(datatype="FP31"), "FP31"
    yield "a wrong shape", *with_json(shape=[1, 3, 64, 32], parameters={"binary_data_size": size // 2}, tail=values[: size // 2]), "[1 3 64 32]"
    yield "a wrong byte count", *with_json(parameters={"binary_data_size": size - 4}), str(size - 4)
    yield "a negative byte count", *with_json(parameters={"binary_data_size": -1}), "-1"
    yield "binary data cut short", *with_json(cut=100), str(size - 100)
    yield "binary data that is too long", *with_json(tail=values + bytes(7)), "7 bytes"
    yield "a header longer than the body", *with_json(header=10**6), "1000000"
    yield "a header of 10^30", *with_json(header=10**30), str(10**30)
    yield "a negative header", *with_json(header=-5), "-5"
    yield "a header in the middle of the JSON", *with_json(header=20), "JSON"
    yield "10^9 elements claimed", *with_json(shape=[10**9 // ELEMENTS, *SHAPE]), str(10**9 // ELEMENTS * ELEMENTS * 4)
    yield "more elements than can be counted", *with_json(shape=[2**62, *SHAPE]), str(2**62)
    yield "a negative dimension", *with_json(shape=[-1, *SHAPE]), "-1"
    yield "100,000 dimensions", *with_json(shape=[1] * 100_000), "32"
    yield "10^9 elements claimed in JSON", json.dumps({"inputs": [{"name": "image", "datatype": "FP32", "shape": [10**5, 10**4], "data": [1]}]}).encode(), {}, str(4 * 10**9)
    yield "NaN in JSON", b'{"inputs":[{"name":"image","datatype":"FP32","shape":[1,3,64,64],"data":[' + b",".join([b"NaN"] * ELEMENTS) + b"]}]}", {}, "NaN"
    yield "10^400 in JSON", b'{"inputs":[{"name":"image","datatype":"FP32","shape":[1,3,64,64],"data":[' + b",".join([b"1e400"] * ELEMENTS) + b"]}]}", {}, "1e400"
    yield "65 MiB", bytes(65 << 20), {"Inference-Header-Content-Length": "0"}, str(64 << 20)
    yield "a PNG of 100,000 x 100,000 pixels", png(100_000, 100_000), {"Inference-Header-Content-Length": "0"}, "33177600"
    yield "a PNG of 33,177,601 x 1 pixels", png(33_177_601, 1), {"Inference-Header-Content-Length": "0"}, "33177600"
    yield "a picture cut short", png(4000, 4000)[:-500], {"Inference-Header-Content-Length": "0"}, "picture"
    yield "a timeout below 0", *binary(values, timeout=-1), "timeout"
    yield "a timeout of 2^64", *binary(values, timeout=2**64), "timeout"
    yield "a stream of 1 MB", *binary(values, stream="x" * 1_000_000, timeout=10**6), "256"


def lying_tensors(binary_):
    """Tensors of wrong names, types, shapes and sizes, headers beyond the body, 10^9 elements claimed, 65 MiB, pictures of 10^10 pixels, each up to 20 times. Wanted: 4xx that names the figure, no process grows by 128 MiB"""
    with serving(binary_) as server:
        before, wrong, tried = resident(server), [], 0
        for turn in range(20):
            for what, body, headers, named in lies():
                if turn > 1 and len(body) > 1 << 20:
                    continue
                tried += 1
                status, answer = server.request("POST", "/v2/models/quick/infer", body, 60, headers)
                text = answer.decode(errors="replace")
                if not 400 <= status < 500 or named not in text or len(text) > 2000:
                    wrong.append(f"{what}: {status} {text[:200]}")
            if turn == 0:
                before = resident(server)
        ok, more = infer(server, "quick"), grown(before, resident(server))
        held = not wrong and ok == (200, True) and more < 128
        return held, f"{tried} refused, {len(wrong)} not as wanted {list(dict.fromkeys(wrong))[:3]}, then {ok}; grown by {more} MiB"


def odd_numbers(binary_):
    """NaN, infinities and subnormal numbers as binary data, timeouts of 0, of 1 microsecond and of 200,000 years. Wanted: computed as they are; the deadline of 1 microsecond 504"""
    with serving(binary_) as server:
        values = struct.pack("<4f", float("nan"), float("inf"), float("-inf"), 1e-45) * (ELEMENTS // 4)
        body, headers = binary(values)
        status, answer = server.request("POST", "/v2/models/slow/infer", body, 60, headers)
        got = struct.unpack("<4f", answer[-16:]) if status == 200 else answer
        numbers = status == 200 and got[0] != got[0] and got[1:3] == (float("inf"), float("-inf")) and got[3] < 1e-40
        found = [ask(server, t) for t in (0, 1, 9 * 10**15)]
        return numbers and found == [200, 504, 200], f"{status}, numbers as they are: {numbers}; timeouts of 0, 1 and 9 x 10^15: {found}"


def ask(server, timeout):
    values, _ = frame(1)
    body, headers = binary(values, timeout=timeout)
    return server.request("POST", "/v2/models/quick/infer", body, 60, headers)[0]


def half_tensors(binary_):
    """1,500 requests of 60 MiB of binary data of which 4 KiB come. Wanted: closed by the server within 75 s, /health answers meanwhile"""
    body, headers = binary(frame(1)[0])
    head = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
    data = f"POST /v2/models/quick/infer HTTP/1.1\r\nHost: x\r\n{head}Content-Length: {60 << 20}\r\n\r\n".encode() + body[:4096]
    with tempfile.TemporaryDirectory() as directory:
        return connections.held_open(binary_, data, networks=[f"quick={write(directory + '/quick.onnx')}"])


def vanishing(binary_):
    """2,000 clients of networks that send a frame and leave at once, a prompt beside them now and then. Wanted: others are answered, no job is left, no process grows by 128 MiB"""
    with serving(binary_, demo=True) as server:
        body, headers = binary(frame(2)[0])
        head = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
        data = f"POST /v2/models/slow/infer HTTP/1.1\r\nHost: x\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        before, beside = {}, []
        for i in range(2000):
            with contextlib.suppress(OSError):
                server.raw(data).close()
            if i == 500:
                before = resident(server)
            if i % 100 == 0:
                beside.append(server.complete("beside", model="demo")[0] == 200 and infer(server, "quick", i) == (200, True))
        left = settled(server)
        more = grown(before, resident(server))
        return all(beside) and not left and more < 128, f"{sum(beside)} of {len(beside)} answered beside them, {left or 'no'} jobs left, grown by {more} MiB"


def settled(server, seconds=30):
    """How many jobs are open when there should be none."""
    end, left = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        text = server.request("GET", "/metrics")[1].decode()
        left = sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith("prefillonly:open_jobs"))
        if not left:
            break
        time.sleep(0.2)
    return int(left)


def many(count, do):
    """The results of do(i) by 8 threads, OSErrors among them."""
    def one(i):
        try:
            return do(i)
        except OSError as error:
            return error

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return list(pool.map(one, range(count)))


def crash_networks(binary_):
    """SIGSEGV, ABRT, KILL, BUS, FPE to the executor while 8 clients ask two networks and a language model beside them. Wanted: every request is answered, rightly"""
    with serving(binary_, demo=True) as server:
        going, results = True, []

        def client(number):
            n = 0
            while going:
                n += 1
                try:
                    if number % 4 == 0:
                        results.append(server.complete(f"client {number} request {n}", model="demo")[0] == 200 or "a prompt was refused")
                    else:
                        status, right = infer(server, ("quick", "slow")[number % 2], number * 31 + n)
                        results.append(right if status == 200 else f"{status} {right}")
                except OSError as error:
                    results.append(str(error))

        threads = [threading.Thread(target=client, args=(i,)) for i in range(8)]
        for t in threads:
            t.start()
        ready = True
        for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL, signal.SIGBUS, signal.SIGFPE):
            time.sleep(3)
            for pid in server.children("executor"):
                os.kill(pid, number)
            time.sleep(0.5)
            ready = ready and server.wait_ready(45)
        time.sleep(3)
        going = False
        for t in threads:
            t.join(90)
        wrong = [r for r in results if r is not True]
        left = settled(server)
        return ready and not wrong and not left and len(results) > 50, f"{len(results) - len(wrong)} answered rightly, {len(wrong)} not {wrong[:2]}, {left or 'no'} jobs left"


def unload_networks(binary_):
    """A network is unloaded and loaded 20 times through the repository while 8 clients ask it. Wanted: each frame is answered rightly or refused with 503, the server answers on"""
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
        keys.write("boss @admin\nguest\n")
        keys.flush()
        os.chmod(keys.name, 0o600)
        with serving(binary_, "--api-key-file", keys.name) as server:
            going, done = True, []
            guest, boss = {"Authorization": "Bearer guest"}, {"Authorization": "Bearer boss"}
            values, want = frame(5)
            body, headers = binary(values)

            def client(_):
                outcomes = []
                while going:
                    status, answer = server.request("POST", "/v2/models/slow/infer", body, 60, {**headers, **guest})
                    outcomes.append(answer.endswith(want) if status == 200 else status)
                return outcomes

            pool = concurrent.futures.ThreadPoolExecutor(8)
            clients = [pool.submit(client, i) for i in range(8)]
            for _ in range(20):
                for action in ("unload", "load"):
                    done.append(server.request("POST", f"/v2/repository/models/slow/{action}", b"{}", 60, boss)[0])
                    time.sleep(0.1)
            going = False
            outcomes = [o for c in clients for o in c.result(90)]
            wrong = [o for o in outcomes if o not in (True, 503)]
            held = not wrong and done == [200] * 40 and True in outcomes
            return held, f"{outcomes.count(True)} answered rightly, {outcomes.count(503)} refused with 503, {len(wrong)} otherwise {wrong[:3]}; {done.count(200)} of 40 times done"


def stream_promises(binary_):
    """2,000 streams that each ask one promise of 50 ms, and a stream that was promised before. Wanted: each 200, 429 or 504; the first stream is served on, no process grows by 128 MiB"""
    with serving(binary_) as server:
        before = resident(server)
        first = []

        def one(i):
            if i % 20 == 0:
                body, headers = binary(frame(i)[0], stream="first", timeout=10_000_000)
                first.append(server.request("POST", "/v2/models/slow/infer", body, 60, headers)[0])
            body, headers = binary(frame(i)[0], stream=f"s{i}", timeout=50_000)
            return server.request("POST", "/v2/models/slow/infer", body, 60, headers)[0]

        found = [r if isinstance(r, int) else str(r) for r in many(2000, one)]
        counts = {status: found.count(status) for status in set(found)}
        left, more = settled(server), grown(before, resident(server))
        served = first.count(200)
        held = set(counts) <= {200, 429, 504} and served >= len(first) // 2 and set(first) <= {200, 429, 504} and not left and more < 128
        return held, f"{counts}; of the first stream's {len(first)} frames {served} answered; {left or 'no'} jobs left, grown by {more} MiB"


def priority_abuse(binary_):
    """16 clients whose frames all say priority 1, and one with the default, each with a key of its own. Wanted: the one is answered within 2 s each time"""
    keys = ",".join(f"key{i}" for i in range(17))
    with serving(binary_, env={"PREFILLONLY_API_KEY": keys}) as server:
        going = True

        def flood(i):
            body, headers = binary(frame(i)[0], priority=1)
            while going:
                with contextlib.suppress(OSError):
                    server.request("POST", "/v2/models/slow/infer", body, 60, {**headers, "Authorization": f"Bearer key{i}"})

        threads = [threading.Thread(target=flood, args=(i,), daemon=True) for i in range(16)]
        for t in threads:
            t.start()
        time.sleep(1)
        body, headers = binary(frame(99)[0])
        took, statuses, end = [], set(), time.monotonic() + 10
        while time.monotonic() < end:
            start = time.monotonic()
            statuses.add(server.request("POST", "/v2/models/slow/infer", body, 60, {**headers, "Authorization": "Bearer key16"})[0])
            took.append(time.monotonic() - start)
        going = False
        for t in threads:
            t.join(60)
        return statuses == {200} and max(took) < 2, f"{len(took)} frames, statuses {statuses}, the longest {max(took) * 1e3:.0f} ms"


def long_networks(binary_):
    """A chain of 147,000 nodes, as a public ESPNetv2 has, and one of 300,000 are served beside a small network. Wanted: the longer one is refused by name with both figures, the others answer rightly, ready within 120 s"""
    with tempfile.TemporaryDirectory() as directory:
        depths = {"quick": 1, "long": 73_500, "longer": 150_000}
        start = time.monotonic()
        with Server(binary_, *[f"{name}={write(f'{directory}/{name}.onnx', depth)}" for name, depth in depths.items()]) as server:
            ready = server.wait_ready(120)
            took = time.monotonic() - start
            answers = {name: infer(server, name) for name in depths}
            refused = answers["longer"][0] >= 400 and "300000 nodes, want at most 262144" in str(answers["longer"][1])
            held = ready and refused and all(answers[name] == (200, True) for name in ("quick", "long"))
            return held, f"ready after {took:.0f} s; longer: {answers['longer'][1]}; long: {answers['long']}"


ATTACKS = [lying_tensors, odd_numbers, half_tensors, vanishing, crash_networks, unload_networks, stream_promises, priority_abuse, long_networks]
