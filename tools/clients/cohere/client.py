"""Drives a server of a ranker with the unmodified cohere package, both its versions."""
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

report(f"cohere {cohere.__version__}")
