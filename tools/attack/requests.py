"""Attacks by requests: what takes all memory or time, or gets a wrong answer."""

import concurrent.futures
import statistics
import threading
import time

from server import Server, decode, message


def echo_and_more(binary):
    """`echo` with logprobs and more than one answer token; prompt_logprobs in chat; both streamed. Wanted: 200"""
    with Server(binary) as server:
        server.wait_ready()
        chat = {"messages": [{"role": "user", "content": "a b"}], "prompt_logprobs": 1, "max_tokens": 4, "temperature": 0}
        found = [
            server.complete("a b", echo=True, logprobs=1, max_tokens=16)[0],
            server.complete("a b", prompt_logprobs=1, max_tokens=16)[0],
            server.complete("a b", echo=True, logprobs=1, max_tokens=16, stream=True)[0],
            server.request("POST", "/v1/chat/completions", chat)[0],
        ]
        return found == [200] * 4, f"{found}"


def generation_starves(binary):
    """20 streams of 4,000 tokens beside prompts of 100 tokens, one after the other for 15 s. Wanted: a prompt waits a pass or two (P99 below 1 s), no stream stands still"""
    with Server(binary) as server:
        server.wait_ready()
        counts, going = [0] * 20, True

        def stream(i):
            body = {"prompt": f"stream {i}", "max_tokens": 4000, "stream": True, "ignore_eos": True}
            import http.client
            import json

            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            while going and (line := response.readline()):
                counts[i] += line.startswith(b"data: {")
            connection.close()

        threads = [threading.Thread(target=stream, args=(i,), daemon=True) for i in range(20)]
        for t in threads:
            t.start()
        time.sleep(2)
        before, took, end = list(counts), [], time.monotonic() + 15
        n = 0
        while time.monotonic() < end:
            n += 1
            start = time.monotonic()
            try:
                status, _ = server.complete(f"{n} " + "word " * 100, timeout=30)
            except OSError:
                status = 0
            took.append(time.monotonic() - start if status == 200 else 30)
        going = False
        progress = [c - b for b, c in zip(before, counts)]
        for t in threads:
            t.join(5)
        took.sort()
        p99 = took[int(0.99 * (len(took) - 1))]
        held = p99 < 1 and min(progress) > 0
        return held, f"{len(took)} prompts, median {statistics.median(took) * 1e3:.0f} ms, P99 {p99 * 1e3:.0f} ms; tokens of a stream meanwhile: {min(progress)} to {max(progress)}"


def all_memory(binary):
    """Four prompts of 8,000 tokens with n=128, echo and logprobs=20 in one request, four times at once. Wanted: 400 that names the bound, or an answer; no process over 1 GiB"""
    with Server(binary) as server:
        server.wait_ready()
        prompts = [[100 + (7 * i + j) % 900 for i in range(8000)] for j in range(4)]

        def ask(_):
            try:
                status, body = server.complete(prompts, n=128, echo=True, logprobs=20, timeout=120)
                return f"{status} {message(body) if status != 200 else ''}".strip()
            except OSError as error:
                return f"no answer: {error}"

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            outcomes = set(pool.map(ask, range(4)))
        most, alive = server.peak_memory(), server.complete("still there")[0] == 200
        held = alive and most < 1 << 30 and not any(o.startswith("no answer") for o in outcomes)
        return held, f"{'; '.join(outcomes)}; peak {most >> 20} MiB"


def spaces(binary):
    """11 million spaces and an x. Wanted: 400 with the figures; never a score of a part of the text"""
    with Server(binary) as server:
        server.wait_ready()
        start = time.monotonic()
        status, body = server.complete(" " * 11_000_000 + "x", timeout=120)
        return status == 400, f"{status} {message(body) if status != 200 else body.get('usage')} after {time.monotonic() - start:.1f} s"


def long_texts(binary):
    """Eight 8 MB bodies of text at a time beside short prompts for 10 s. Wanted: P99 of the short ones below 1 s"""
    with Server(binary) as server:
        server.wait_ready()
        going, text = True, "word and number 12345, " * 350_000

        def flood():
            while going:
                try:
                    server.complete(text, timeout=60)
                except OSError:
                    time.sleep(0.1)

        threads = [threading.Thread(target=flood, daemon=True) for _ in range(8)]
        for t in threads:
            t.start()
        time.sleep(1)
        took, end, wrong = [], time.monotonic() + 10, 0
        while time.monotonic() < end:
            start = time.monotonic()
            try:
                wrong += server.complete(f"short {len(took)}", timeout=60)[0] != 200
            except OSError:
                wrong += 1
            took.append(time.monotonic() - start)
        going = False
        for t in threads:
            t.join(60)
        took.sort()
        p99 = took[int(0.99 * (len(took) - 1))]
        return p99 < 1 and not wrong, f"{len(took)} short prompts, median {statistics.median(took) * 1e3:.0f} ms, P99 {p99 * 1e3:.0f} ms, {wrong} failed"


def two_keys(binary):
    """A second key sends the prompt that the first has just sent. Wanted: cached_tokens 0, as for a prompt nobody sent"""
    with Server(binary, env={"PREFILLONLY_API_KEY": "first-key,second-key"}) as server:
        server.wait_ready()
        prompt = [100 + i % 800 for i in range(600)]
        cached = []
        for key in ("first-key", "first-key", "second-key"):
            status, body = server.complete(prompt, headers={"Authorization": f"Bearer {key}"})
            if status != 200:
                return False, f"{status} {message(body)}"
            cached.append(body["usage"]["prompt_tokens_details"]["cached_tokens"])
        return cached[1] > 0 and cached[2] == 0, f"cached tokens: first key {cached[0]}, again {cached[1]}, second key {cached[2]}"


def joined_salts(binary):
    """A decision under the pair of prompt_cache_key a and cache_salt b, and the same input under 63 others that join alike: with the parts moved, NULs, lengths in front, and as cache_salt alone. Wanted: no other one finds cached tokens"""
    with Server(binary) as server:
        server.wait_ready()

        def cached(key, salt):
            body = {"input": "the cat sat on the mat . " * 100, "questions": [{"type": "predicate", "instructions": "Is it?"}], "prompt_cache_key": key, "cache_salt": salt}
            status, raw = server.request("POST", "/v1/decisions", body)
            return decode(raw)["usage"]["input_tokens_details"]["cached_tokens"] if status == 200 else message(decode(raw))

        cached("a", "b")
        parts = ["", "a", "b", "ab", "a\0b", "\0b", "a\0", "1:ab"]
        found = {(key, salt): cached(key, salt) for key in parts for salt in parts if (key, salt) != ("a", "b")}
        met = {pair: n for pair, n in found.items() if n != 0}
        again = cached("a", "b")
        return not met and again > 0, f"{len(met)} of {len(found)} pairs find cached tokens {dict(list(met.items())[:3])}; the pair itself {again}"


def duplicate_keys(binary):
    """A body with `prompt` twice. Wanted: one of them or 400, not both"""
    with Server(binary) as server:
        server.wait_ready()
        status, raw = server.request("POST", "/v1/completions", '{"prompt":"a b","prompt":"c d","max_tokens":1}')
        return status == 400 or raw.count(b'"index"') == 1, f"{status}, {raw.count(b'index')} choices"


def odd_values(binary):
    """Fields at and beyond their ends: n 10^9, logprobs -1, max_tokens -1 and 2^63, temperature NaN and 1e308, ids -1 and 10^8, 10^6 stop strings, nesting 10^5. Wanted: 4xx each, the server answers on"""
    with Server(binary) as server:
        server.wait_ready()
        bodies = [
            '{"prompt":"a","n":1000000000}', '{"prompt":"a","logprobs":-1}', '{"prompt":"a","max_tokens":-1}', '{"prompt":"a","max_tokens":9223372036854775808}',
            '{"prompt":"a","temperature":NaN}', '{"prompt":"a","temperature":1e308,"max_tokens":1,"top_p":-1}', '{"prompt":[-1]}', '{"prompt":[100000000]}',
            '{"prompt":"a","stop":[' + ",".join(['"x"'] * 1_000_000) + "]}", '{"prompt":' + "[" * 100_000 + "]" * 100_000 + "}", "\x00", '{"prompt":"\\ud800"' , "[]", "null", '"x"',
        ]
        found = [server.request("POST", "/v1/completions", b.encode(errors="surrogatepass"), timeout=60)[0] for b in bodies]
        alive = server.complete("still there")[0] == 200
        return alive and all(400 <= f < 500 for f in found), f"{found}"


ATTACKS = [echo_and_more, generation_starves, all_memory, spaces, long_texts, two_keys, joined_salts, duplicate_keys, odd_values]
