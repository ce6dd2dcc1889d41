"""Measures what a token of a structured answer takes beside a plain one: python3 tools/peers/structured.py URL [MODEL], on a server that is
otherwise idle. Prints milliseconds a token after the first, the median of 5 requests."""
import json
import statistics
import sys
import time
import urllib.request

url, model = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
FORMS = {
    "plain": {},
    "one of few tokens ([0-9]{99})": {"guided_regex": "[0-9]{99}"},
    "nearly any token (.{999})": {"guided_regex": ".{999}"},
    "one of 2,000 texts": {"guided_choice": [f"{a} {b} {c}" for a in "abcdefghij" for b in range(10) for c in range(20)]},
}


def ask(prompt, most, form):
    body = {"prompt": prompt, "max_tokens": most, "temperature": 1, "seed": 1, "ignore_eos": True, **form}
    if model:
        body["model"] = model
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    began = time.perf_counter()
    with urllib.request.urlopen(request) as response:
        answer = json.load(response)
    return time.perf_counter() - began, answer["usage"]


for length in 100, 1000:
    prompt = [100 + i % 1000 for i in range(length)]
    for name, form in FORMS.items():
        most = 4 if "texts" in name else 24
        ask(prompt, most, form)
        times = []
        for _ in range(5):
            one, _ = ask(prompt, 1, form)
            all, usage = ask(prompt, most, form)
            times.append(1000 * (all - one) / max(1, usage["completion_tokens"] - 1))
        print(f"prompt {length}: {name}: {statistics.median(times):.2f} ms a token", flush=True)
schema = {"type": "object", "properties": {"temperature": {"enum": [1, 2]}, "description": {"type": "boolean"}, "kind": {"enum": ["first", "second"]}},
          "required": ["temperature", "description", "kind"], "additionalProperties": False}
for length in 100, 1000:
    prompt = [100 + i % 1000 for i in range(length)]
    for name, form in {"JSON of a schema": {"guided_json": schema}, "as many plain tokens": {}}.items():
        times = []
        for i in range(6):
            took, usage = ask(prompt, 200 if form else tokens, form)
            times.append(1000 * took)
        tokens = usage["completion_tokens"]
        print(f"prompt {length}: {name}: {statistics.median(times[1:]):.1f} ms for {tokens} tokens", flush=True)
