"""Drives a server of an embedder, a ranker and a classifier with the unmodified openai and cohere packages."""
import base64
import math
import struct
import sys
import time

import cohere
import openai

url, key = sys.argv[1:3]
client = openai.OpenAI(base_url=url + "/v1", api_key=key, max_retries=0, timeout=60)
done = []


def check(name, condition, got=None):
    if not condition:
        sys.exit(f"FAIL {name}: {got}")
    done.append(name)


def f32(numbers):
    """The numbers as FP32, which JSON writes in the fewest digits that tell them apart."""
    return struct.pack(f"<{len(numbers)}f", *numbers)


for _ in range(300):
    try:
        if all(m.state == "ready" for m in client.models.list().data):
            break
    except (openai.APIConnectionError, openai.InternalServerError):
        pass
    time.sleep(0.1)

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
for name, request, error in (("unknown model", {"model": "nope", "input": "a"}, openai.NotFoundError), ("no input", {"model": "embedder", "input": []}, openai.BadRequestError),
                             ("not for it", {"model": "ranker", "input": "a"}, openai.BadRequestError), ("too long", {"model": "embedder", "input": [[5] * 2_000_000]}, openai.BadRequestError)):
    try:
        client.embeddings.create(**request)
        sys.exit(f"FAIL {name}: not refused")
    except error as refused:
        check(name, refused.message and refused.code, refused)

query, documents = "cats", texts
v2 = cohere.ClientV2(api_key=key, base_url=url)
ranked = v2.rerank(model="ranker", query=query, documents=documents)
scores = [r.relevance_score for r in ranked.results]
check("cohere v2", len(scores) == 3 and scores == sorted(scores, reverse=True) and ranked.meta.billed_units.search_units == 1, ranked)
first = v2.rerank(model="ranker", query=query, documents=documents, top_n=1).results
check("cohere top_n", len(first) == 1 and first[0].index == ranked.results[0].index, first)
v1 = cohere.Client(api_key=key, base_url=url).rerank(model="ranker", query=query, documents=documents, return_documents=True)
check("cohere v1", [r.index for r in v1.results] == [r.index for r in ranked.results] and v1.results[0].document.text == documents[v1.results[0].index], v1)
try:
    v2.rerank(model="ranker", query=query, documents=[])
    sys.exit("FAIL cohere error: not refused")
except cohere.errors.BadRequestError as refused:
    check("cohere error", "documents" in refused.body["message"], refused.body)
jina = client.post("/rerank", body={"model": "ranker", "query": query, "documents": documents, "top_n": 2}, cast_to=object)
check("jina", [r["index"] for r in jina["results"]] == [r.index for r in ranked.results][:2] and jina["results"][0]["document"]["text"], jina)
score = client.post("/score", body={"model": "ranker", "text_1": query, "text_2": documents}, cast_to=object)
check("score", sorted((d["score"] for d in score["data"]), reverse=True) == scores, (score, scores))

classes = client.post("/classify", body={"model": "classifier", "input": texts}, cast_to=object)
check("classify", all(abs(sum(d["probs"]) - 1) < 1e-6 and d["label"] in ("no", "maybe", "yes") for d in classes["data"]), classes)
print(f"openai {openai.__version__}, cohere {cohere.__version__}: {len(done)} checks passed: {', '.join(done)}")
