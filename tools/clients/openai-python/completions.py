"""Drives a prefillonly server with the unmodified openai package and checks what comes back."""
import asyncio
import math
import sys

import openai

from checks import check, refused, report

base_url, key = sys.argv[1:3]
client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=600)
model = client.models.list().data[0].id

r = client.completions.create(model=model, prompt="The answer is", max_tokens=1, temperature=0, logprobs=5)
check("completion", r.choices[0].finish_reason == "length" and r.usage.completion_tokens == 1, r)
check("logprobs", len(r.choices[0].logprobs.top_logprobs[0]) >= 5, r)

r = client.completions.create(model=model, prompt=["one", "two", "three"], max_tokens=1, n=2, temperature=1, seed=7)
check("list and n", [c.index for c in r.choices] == list(range(6)), r)
again = client.completions.create(model=model, prompt=["one", "two", "three"], max_tokens=1, n=2, temperature=1, seed=7)
check("seed", [c.text for c in r.choices] == [c.text for c in again.choices], again)

r = client.completions.create(model=model, prompt=[5, 6, 7], max_tokens=1, echo=True, logprobs=1,
                              extra_body={"return_tokens_as_token_ids": True})
lp = r.choices[0].logprobs
check("echo", len(lp.token_logprobs) == 4 and lp.token_logprobs[0] is None, lp)
check("token ids", all(t.startswith("token_id:") for t in lp.tokens), lp)

r = client.completions.create(model=model, prompt="Yes or no?", max_tokens=1, temperature=0, logprobs=2,
                              extra_body={"allowed_token_ids": [10, 20]})
total = sum(math.exp(p) for p in r.choices[0].logprobs.top_logprobs[0].values())
check("allowed set", abs(total - 1) < 1e-4, r)

r = client.decisions.create(model=model, input="The parcel came late.", questions=[
    {"type": "predicate", "instructions": "Is it about a parcel?", "name": "parcel"},
    {"type": "choice", "instructions": "Which?", "choices": [{"value": "late"}, {"value": True}]},
    {"type": "score", "instructions": "How late?", "levels": [{"label": "a bit"}, {"label": "very"}]}])
predicate, choice, score = r.answers
check("predicate", predicate.type == "predicate" and predicate.name == "parcel" and 0 < predicate.probability < 1, r)
check("choice", choice.choice in ("late", True) and choice.probabilities[1].value is True and
      abs(sum(p.probability for p in choice.probabilities) - 1) < 1e-6, r)
check("score", abs(score.score - score.probabilities[1].probability) < 1e-6 and r.usage.input_tokens_details.cached_tokens > 0, r)
error = refused("question refused", openai.BadRequestError,
                lambda: client.decisions.create(model=model, input="x", questions=[{"type": "riddle", "instructions": "x"}]))
check("question refused", error.param == "questions[0].type", error)

r = client.chat.completions.create(model=model, messages=[{"role": "user", "content": "Hello"}], max_tokens=4,
                                   logprobs=True, top_logprobs=3)
check("chat", r.choices[0].message.role == "assistant" and len(r.choices[0].logprobs.content) == r.usage.completion_tokens, r)

chunks = list(client.completions.create(model=model, prompt="Once", max_tokens=8, stream=True, temperature=0,
                                        stream_options={"include_usage": True}))
check("stream", chunks[-1].usage.completion_tokens == 8 or chunks[-2].choices[0].finish_reason == "stop", chunks[-1])
whole = client.completions.create(model=model, prompt="Once", max_tokens=8, temperature=0)
check("stream equals whole", "".join(c.choices[0].text for c in chunks if c.choices) == whole.choices[0].text, whole)

greedy = client.completions.create(model=model, prompt="Once", max_tokens=6, temperature=0, logprobs=0, extra_body={"return_token_ids": True})
tokens = greedy.choices[0].token_ids
for name, narrow in {"top_k": {"top_k": 1}, "min_p": {"min_p": 1.0}}.items():
    r = client.completions.create(model=model, prompt="Once", max_tokens=6, temperature=2, extra_body=narrow)
    check(f"{name} leaves the likeliest", r.choices[0].text == greedy.choices[0].text, (r, greedy))
r = client.completions.create(model=model, prompt="Once", max_tokens=6, temperature=0, logprobs=1,
                              extra_body={"bad_words": [greedy.choices[0].logprobs.tokens[0].strip() or ","], "return_token_ids": True})
check("bad_words", r.choices[0].token_ids[0] != tokens[0] and
      list(r.choices[0].logprobs.top_logprobs[0].values())[0] == greedy.choices[0].logprobs.token_logprobs[0], r)
stop = {"stop_token_ids": [tokens[1]]}
short = client.completions.create(model=model, prompt="Once", max_tokens=6, temperature=0, extra_body=stop)
long = client.completions.create(model=model, prompt="Once", max_tokens=6, temperature=0, extra_body={**stop, "min_tokens": 5})
check("min_tokens", short.usage.completion_tokens == 2 and long.usage.completion_tokens >= 5, (short, long))

r = client.completions.create(model=model, prompt="Na\u00efve \u4e2d post", max_tokens=1, echo=True, logprobs=1, extra_body={"prompt_logprobs": 0})
text, lp = r.choices[0].text, r.choices[0].logprobs
check("text_offset", all(text[at:].startswith(t) for at, t in list(zip(lp.text_offset, lp.tokens))[1:] if "\ufffd" not in t), lp)
check("rank", all(t["rank"] >= 1 for at in r.choices[0].prompt_logprobs[1:] for t in at.values()), r)

messages = [{"role": "user", "content": "Yes or no?"}, {"role": "assistant", "content": "The answer is"}]
ask = {"allowed_token_ids": [10, 20], "return_token_ids": True}
said = client.chat.completions.create(model=model, messages=messages, max_tokens=1, temperature=0, logprobs=True, top_logprobs=2,
                                      extra_body={"continue_final_message": True, "add_generation_prompt": False, **ask})
same = client.completions.create(model=model, prompt=said.prompt_token_ids, max_tokens=1, temperature=0, logprobs=2, extra_body=ask)
check("continue_final_message", said.choices[0].logprobs.content[0].logprob == same.choices[0].logprobs.token_logprobs[0], (said, same))
r = client.completions.create(model=model, prompt=said.prompt_token_ids, max_tokens=0, echo=True)
check("continued prompt", r.choices[0].text.endswith("The answer is"), r)

limit = client.models.list().data[0].default_max_tokens
r = client.chat.completions.create(model=model, messages=messages[:1], extra_body={"ignore_eos": True})
check("default of max_tokens", r.usage.completion_tokens == limit and r.choices[0].finish_reason == "length", (limit, r.usage))

raw = client.completions.with_raw_response.create(model=model, prompt="Once", max_tokens=1, temperature=0, extra_headers={"X-Request-Id": "mine-7"})
check("with_raw_response", raw.status_code == 200 and raw.request_id == "mine-7" and int(raw.headers["openai-processing-ms"]) >= 0 and
      raw.parse().choices[0].text, raw.headers)
check("request id", client.completions.create(model=model, prompt="Once", max_tokens=1)._request_id, None)
with client.chat.completions.with_streaming_response.create(model=model, messages=messages[:1], max_tokens=3, stream=True) as raw:
    lines = [line for line in raw.iter_lines() if line]
check("with_streaming_response", raw.headers["content-type"].startswith("text/event-stream") and lines[-1] == "data: [DONE]", lines)
with client.chat.completions.stream(model=model, messages=messages[:1], max_tokens=4, temperature=0) as stream:
    kinds = {event.type for event in stream}
    final = stream.get_final_completion()
check("chat stream events", {"chunk", "content.delta"} <= kinds and final.choices[0].finish_reason in ("length", "stop"), kinds)
left = client.completions.create(model=model, prompt="Once", max_tokens=200, stream=True, extra_body={"ignore_eos": True})
next(iter(left))
left.close()
check("stream left", client.completions.create(model=model, prompt="Once", max_tokens=1).choices, None)
check("models", client.models.retrieve(model).id == model, None)


async def together():
    async with openai.AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=600) as asked:
        async def streamed():
            return "".join([c.choices[0].text async for c in await asked.completions.create(model=model, prompt="Once", max_tokens=8, stream=True, temperature=0)])
        return await asyncio.gather(streamed(), asked.chat.completions.create(model=model, messages=messages[:1], max_tokens=2),
                                    asked.decisions.create(model=model, input="x", questions=[{"type": "predicate", "instructions": "Is it?"}]),
                                    *(asked.completions.create(model=model, prompt="Once", max_tokens=8, temperature=0) for _ in range(16)))

streamed, chat, decision, *all_ = asyncio.run(together())
check("async", streamed == whole.choices[0].text and chat.choices and decision.answers and all(r.choices[0].text == streamed for r in all_), streamed)

error = refused("token id out of range", openai.BadRequestError, lambda: client.completions.create(model=model, prompt=[10**9], max_tokens=1))
check("token id out of range", "1000000000" in error.message, error)
error = refused("too long", openai.BadRequestError, lambda: client.completions.create(model=model, prompt=[5] * 2_000_000, max_tokens=1))
check("too long", error.code == "context_length_exceeded" and "2000000" in error.message, error)

report(f"openai {openai.__version__}, completions")
