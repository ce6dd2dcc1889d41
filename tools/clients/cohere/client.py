"""Drives a server of a ranker and an embedder with the unmodified cohere package, both its versions."""
import base64
import math
import struct
import sys

import cohere

from checks import check, refused, report

url, key = sys.argv[1:3]
query, documents = "cats", ["The cat sat on the mat.", "A feline rested.", "Stocks fell on Monday."]

v2 = cohere.ClientV2(api_key=key, base_url=url)
ranked = v2.rerank(model="ranker", query=query, documents=documents)
scores = [r.relevance_score for r in ranked.results]
check("cohere v2", len(scores) == 3 and scores == sorted(scores, reverse=True) and ranked.meta.billed_units.search_units == 1, ranked)
first = v2.rerank(model="ranker", query=query, documents=documents, top_n=1).results
check("cohere top_n", len(first) == 1 and first[0].index == ranked.results[0].index, first)
v1 = cohere.Client(api_key=key, base_url=url).rerank(model="ranker", query=query, documents=documents, return_documents=True)
check("cohere v1", [r.index for r in v1.results] == [r.index for r in ranked.results] and v1.results[0].document.text == documents[v1.results[0].index], v1)
error = refused("no documents", cohere.errors.BadRequestError, lambda: v2.rerank(model="ranker", query=query, documents=[]))
check("no documents", "documents" in error.body["message"], error.body)

types = ["float", "int8", "uint8", "binary", "ubinary", "base64"]
made = v2.embed(model="embedder", input_type="search_query", texts=documents, embedding_types=types)
vectors = made.embeddings.float_
check("embed", len(vectors) == 3 and len(vectors[0]) == 256 and abs(math.hypot(*vectors[0]) - 1) < 1e-5 and made.texts == documents and made.meta.billed_units.input_tokens > 0, made)
check("base64", list(struct.unpack("<256f", base64.b64decode(made.embeddings.base64[0]))) == [struct.unpack("<f", struct.pack("<f", x))[0] for x in vectors[0]], made.embeddings.base64[0])
check("int8", [round(127 * x) for x in vectors[0]] == made.embeddings.int8[0] and [n - 128 for n in made.embeddings.uint8[0]] == made.embeddings.int8[0], made.embeddings.int8[0])
bits = [int("".join("1" if x > 0 else "0" for x in vectors[0][i:i + 8]), 2) for i in range(0, 256, 8)]
check("binary", made.embeddings.ubinary[0] == bits and made.embeddings.binary[0] == [n - 128 for n in bits], made.embeddings.binary[0])
plain = v2.embed(model="embedder", input_type="search_document", inputs=[{"content": [{"type": "text", "text": t}]} for t in documents], embedding_types=["float"])
check("input_type", max(abs(a - b) for a, b in zip(plain.embeddings.float_[0], vectors[0])) > 1e-4, plain)  # the query's prompt is another
old = cohere.Client(api_key=key, base_url=url)
check("embed v1", max(abs(a - b) for a, b in zip(old.embed(model="embedder", texts=documents, input_type="search_query").embeddings[0], vectors[0])) < 1e-6)
check("embed v1 types", old.embed(model="embedder", texts=documents, input_type="search_query", embedding_types=["int8"]).embeddings.int8 == made.embeddings.int8)
long = ["word " * 20000]
error = refused("too long", cohere.errors.BadRequestError, lambda: v2.embed(model="embedder", input_type="search_query", texts=long))
check("too long", "truncat" in error.body["message"], error.body)
check("truncate", len(v2.embed(model="embedder", input_type="search_query", texts=long, truncate="START", embedding_types=["float"]).embeddings.float_) == 1)

report(f"cohere {cohere.__version__}")
