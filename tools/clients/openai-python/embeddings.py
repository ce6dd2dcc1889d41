"""Drives a server of an embedder, a ranker and a classifier with the unmodified openai package."""
import base64
import math
import struct
import sys

import openai

from checks import check, refused, report

base_url, key = sys.argv[1:3]
client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=600)


def f32(numbers):
    """The numbers as FP32, which JSON writes in the fewest digits that tell them apart."""
    return struct.pack(f"<{len(numbers)}f", *numbers)


capabilities = {m.id: m.capabilities for m in client.models.list().data}
check("capabilities", capabilities["ranker"] == ["classify", "pooling", "score", "rerank"] and "embeddings" in capabilities["embedder"], capabilities)

texts = ["The cat sat on the mat.", "A feline rested.", "Stocks fell on Monday."]
asked = client.embeddings.create(model="embedder", input=texts)  # as base64, which the package decodes
plain = client.embeddings.create(model="embedder", input=texts, encoding_format="float")
check("float and base64", all(f32(a.embedding) == f32(b.embedding) for a, b in zip(asked.data, plain.data)) and [d.index for d in plain.data] == [0, 1, 2], plain.data[0].embedding[:4])
check("length 1", all(abs(math.hypot(*d.embedding) - 1) < 1e-5 for d in plain.data), plain)
check("usage", plain.usage.prompt_tokens == plain.usage.total_tokens > 10, plain.usage)
ids = client.post("/../tokenize", body={"model": "embedder", "prompt": texts[0]}, cast_to=object)["tokens"]
tokens = client.embeddings.create(model="embedder", input=[ids], encoding_format="float").data[0].embedding
check("tokens", max(abs(a - b) for a, b in zip(tokens, plain.data[0].embedding)) < 1e-6, tokens[:4])
short = client.embeddings.create(model="embedder", input=texts[0], dimensions=8).data[0].embedding
scale = math.hypot(*plain.data[0].embedding[:8])
check("dimensions", len(short) == 8 and all(abs(a - b / scale) < 1e-5 for a, b in zip(short, plain.data[0].embedding)), short)
raw = client.embeddings.with_raw_response.create(model="embedder", input=texts[0], encoding_format="base64").http_response.json()
check("raw base64", base64.b64decode(raw["data"][0]["embedding"]) == f32(plain.data[0].embedding), raw)
for name, request, kind in (("unknown model", {"model": "nope", "input": "a"}, openai.NotFoundError), ("no input", {"model": "embedder", "input": []}, openai.BadRequestError),
                             ("not for it", {"model": "ranker", "input": "a"}, openai.BadRequestError), ("too long", {"model": "embedder", "input": [[5] * 2_000_000]}, openai.BadRequestError)):
    error = refused(name, kind, lambda: client.embeddings.create(**request))
    check(name, error.message and error.code, error)

query = "cats"
score = client.post("/score", body={"model": "ranker", "text_1": query, "text_2": texts}, cast_to=object)
scores = [d["score"] for d in score["data"]]
check("score", len(scores) == 3 and all(0 <= s <= 1 for s in scores), score)
ranked = client.post("/rerank", body={"model": "ranker", "query": query, "documents": texts, "top_n": 2}, cast_to=object)["results"]
check("rerank", [(r["index"], r["relevance_score"]) for r in ranked] == sorted(enumerate(scores), key=lambda s: -s[1])[:2], (ranked, scores))
classes = client.post("/classify", body={"model": "classifier", "input": texts}, cast_to=object)
check("classify", all(abs(sum(d["probs"]) - 1) < 1e-6 and d["label"] in ("no", "maybe", "yes") for d in classes["data"]), classes)

report(f"openai {openai.__version__}, embeddings, scores and classes")
