"""What the unmodified openai package makes of a server's refusals. Usage: failures.py URL KEY PID; the server has room for 8 waiting
requests, and is ended at the last."""
import concurrent.futures
import os
import signal
import socket
import sys
import time

import openai

from checks import check, refused, report

base_url, key, pid = sys.argv[1:4]
client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=600)
ask = dict(model="lm", prompt="Once")
chat = dict(model="lm", messages=[{"role": "user", "content": "Hi"}])

# Each status has its class of exception.
for name, kind, status, code, param, call in (
        ("400", openai.BadRequestError, 400, "invalid_value", "temperature", lambda: client.completions.create(**ask, temperature=-1)),
        ("400 in a chat", openai.BadRequestError, 400, "invalid_value", "messages", lambda: client.chat.completions.create(model="lm", messages=[])),
        ("400 before a stream", openai.BadRequestError, 400, "invalid_value", "max_tokens", lambda: client.completions.create(**ask, max_tokens=-1, stream=True)),
        ("400 too long", openai.BadRequestError, 400, "context_length_exceeded", "prompt", lambda: client.completions.create(model="lm", prompt=[5] * 100_000)),
        ("400 for another model", openai.BadRequestError, 400, None, None, lambda: client.embeddings.create(model="lm", input=[])),
        ("401 wrong key", openai.AuthenticationError, 401, "invalid_api_key", None, lambda: client.with_options(api_key="wrong").completions.create(**ask)),
        ("401 on a GET", openai.AuthenticationError, 401, "invalid_api_key", None, lambda: client.with_options(api_key="wrong").models.list()),
        ("403", openai.PermissionDeniedError, 403, "admin_key_required", None, lambda: client.post("/models/lm/unload", cast_to=object)),
        ("404 model", openai.NotFoundError, 404, "model_not_found", "model", lambda: client.chat.completions.create(**{**chat, "model": "gpt-4"})),
        ("404 path", openai.NotFoundError, 404, "unknown_path", None, lambda: client.images.generate(model="lm", prompt="x")),
        ("405", openai.APIStatusError, 405, "method_not_allowed", None, lambda: client.get("/completions", cast_to=object)),
        ("413", openai.APIStatusError, 413, "body_too_large", None, lambda: client.completions.create(model="lm", prompt="x" * (65 << 20))),
        ("415", openai.APIStatusError, 415, "unsupported_media_type", None, lambda: client.completions.create(**ask, extra_headers={"Content-Type": "text/plain"}))):
    error = refused(name, kind, call)
    check(name, error.status_code == status and error.message and error.type and (code is None or error.code == code) and
          (param is None or error.param == param) and error.request_id, (error.status_code, error.body, error.request_id))

tries = []
counting = openai.OpenAI(base_url=base_url, api_key=key, max_retries=3, timeout=600, http_client=openai.DefaultHttpxClient(
    event_hooks={"response": [lambda response: tries.append((time.monotonic(), response))]}))


def long(which, i):
    return which.completions.create(model="lm", prompt=[10 + i] * 400, max_tokens=40, temperature=0, extra_body={"ignore_eos": True})


def some(call):
    """What call returns once that is something."""
    return next(filter(None, (call() for _ in range(100))), None)


with concurrent.futures.ThreadPoolExecutor(48) as pool:
    # What waits too long for a router's promise: behind others, for longer than a nanosecond. Whether others are there before it depends
    # on the machine. A request can do nothing about it, so X-Should-Retry says not to try again.
    def late():
        others = [pool.submit(long, client, i) for i in range(6)]
        tries.clear()
        try:
            counting.completions.create(**ask, max_tokens=1, extra_headers={"X-Llm-D-Slo-Ttft-Ms": "0.000001"})
        except openai.InternalServerError as error:
            return error
        finally:
            concurrent.futures.wait(others)

    error = some(late)
    check("504", error and error.status_code == 504 and error.code == "deadline_exceeded", error)
    check("504 is final", len(tries) == 1 and tries[0][1].headers["x-should-retry"] == "false", [t[1].headers for t in tries])

    # More than may wait: some get 429, and come back when Retry-After says.
    refusals = some(lambda: [f.exception() for f in [pool.submit(long, client, i) for i in range(48)] if f.exception()])
    check("429", refusals and all(type(e) is openai.RateLimitError and e.code == "overloaded" and 1 <= int(e.response.headers["retry-after"]) <= 60 for e in refusals), refusals)
    patient = counting.with_options(max_retries=50)

    def retried():
        tries.clear()
        answers = [f.result() for f in [pool.submit(long, patient, i) for i in range(48)]]
        check("retried to the end", all(r.usage.completion_tokens == 40 for r in answers))
        return len(tries) > 48

    check("retries", some(retried), len(tries))
by_prompt = {}
for at, response in tries:
    by_prompt.setdefault(response.request.read(), []).append((at, response))
waits = [(after - at, int(response.headers["retry-after"])) for turns in by_prompt.values() for (at, response), (after, _) in zip(turns, turns[1:])]
check("Retry-After", waits and all(waited >= told for waited, told in waits), waits)

# No answer at all.
refused("timeout", openai.APITimeoutError, lambda: client.with_options(timeout=0.001).completions.create(**ask, max_tokens=200, extra_body={"ignore_eos": True}))
check("after a timeout", client.completions.create(**ask, max_tokens=1).choices)
with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    refused("nobody listens", openai.APIConnectionError, lambda: client.with_options(base_url=f"http://127.0.0.1:{s.getsockname()[1]}/v1").models.list())

# A server that ends: what is open is answered, what is new gets 503.
stream = client.completions.create(**ask, max_tokens=100, stream=True, extra_body={"ignore_eos": True})
chunks = [next(iter(stream))]
os.kill(int(pid), signal.SIGTERM)
deadline = time.monotonic() + 60
while True:
    check("told to end", time.monotonic() < deadline, "a minute later it still answers")
    try:
        client.completions.create(**ask, max_tokens=1)
        time.sleep(0.02)
    except openai.APIConnectionError:
        pass  # the server closed the connection, which was idle, as the request came
    except openai.InternalServerError as error:
        check("503", error.status_code == 503 and error.code == "shutting_down" and int(error.response.headers["retry-after"]) >= 1, error.body)
        break
chunks += list(stream)
check("the stream ends whole", chunks[-1].choices[0].finish_reason == "length" and len(chunks) > 50, (len(chunks), chunks[-1]))
report(f"openai {openai.__version__}, failures")
