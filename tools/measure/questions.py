"""Measures what many questions about one text take beside one question: python3 tools/measure/questions.py URL [MODEL [QUESTIONS [TURNS]]], on a server
that is otherwise idle. Turns of one question and of all, each about a text that is new to the server; prints both times, their
ratio and the tokens that were computed behind the first question's."""
import json
import random
import statistics
import sys
import time
import urllib.request

url, model = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
count, turns = int(sys.argv[3]) if len(sys.argv) > 3 else 64, int(sys.argv[4]) if len(sys.argv) > 4 else 7
WORDS = "the ship left its harbour with grain and salt before dawn while rain fell over many low hills near an old town".split()
THINGS = "grain salt rain ships hills dawn harbours towns".split()


def ask(seed, questions, words):
    rng = random.Random(seed)
    body = {"input": " ".join(rng.choice(WORDS) for _ in range(words)), "questions": [
        {"type": "predicate", "instructions": f"Is it about {THINGS[i % 8]} or {THINGS[i // 8 % 8]}?"} for i in range(questions)]}
    if model:
        body["model"] = model
    request = urllib.request.Request(url + "/v1/decisions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    began = time.perf_counter()
    with urllib.request.urlopen(request) as response:
        answer = json.load(response)
    return time.perf_counter() - began, answer["usage"]


words = 400
_, usage = ask(0, 1, words)  # how long words are to this tokenizer
words = words * 4000 // usage["input_tokens"]
one, all = [], []
for turn in range(turns):
    took, usage = ask(2 * turn + 1, 1, words)
    one.append(took)
    took, many = ask(2 * turn + 2, count, words)
    all.append(took)
    print(f"one {one[-1]:.3f} s, {usage['input_tokens']} tokens; {count} {all[-1]:.3f} s, {many['input_tokens']} tokens, "
          f"{many['input_tokens_details']['cached_tokens']} of them cached: {all[-1] / one[-1]:.2f} times", flush=True)
print(f"least {min(all) / min(one):.2f} times, medians {statistics.median(all) / statistics.median(one):.2f} times")
