"""Drives a server of an embedder and a ranker with the unmodified jina-haystack package, of Jina's API."""
import asyncio
from importlib.metadata import version
import math
import sys

from haystack import Document
from haystack_integrations.components.embedders.jina import JinaDocumentEmbedder, JinaTextEmbedder
from haystack_integrations.components.rankers.jina import JinaRanker

from checks import check, refused, report

base_url = sys.argv[1]
texts = ["The cat sat on the mat.", "A feline rested.", "Stocks fell on Monday."]
documents = [Document(content=text) for text in texts]


def far(a, b):
    return max(abs(x - y) for x, y in zip(a, b, strict=True))


text = JinaTextEmbedder(model="embedder", base_url=base_url + "/embeddings")
one = text.run(texts[0])
check("text", len(one["embedding"]) == 256 and abs(math.hypot(*one["embedding"]) - 1) < 1e-4 and one["meta"]["usage"]["prompt_tokens"] > 5, one)
check("text async", far(asyncio.run(text.run_async(texts[0]))["embedding"], one["embedding"]) < 1e-6)
all_ = JinaDocumentEmbedder(model="embedder", base_url=base_url + "/embeddings", batch_size=2, progress_bar=False).run(documents)
check("documents", far(all_["documents"][0].embedding, one["embedding"]) < 1e-6 and all_["documents"][1].embedding != one["embedding"], all_)
check("usage", all_["meta"]["usage"]["total_tokens"] > one["meta"]["usage"]["total_tokens"], all_["meta"])
short = JinaTextEmbedder(model="embedder", base_url=base_url + "/embeddings", dimensions=8).run(texts[0])["embedding"]
check("dimensions", len(short) == 8 and abs(math.hypot(*short) - 1) < 1e-4, short)
prompted = JinaTextEmbedder(model="embedder", base_url=base_url + "/embeddings", task="retrieval.query").run(texts[0])
check("task", len(prompted["embedding"]) == 256, prompted)

ranker = JinaRanker(model="ranker", base_url=base_url + "/rerank")
ranked = ranker.run("cats", documents)
scores = [d.score for d in ranked["documents"]]
check("rank", len(scores) == 3 and scores == sorted(scores, reverse=True) and ranked["meta"]["usage"]["total_tokens"] > 10, ranked)
check("rank async", [d.id for d in asyncio.run(ranker.run_async("cats", documents))["documents"]] == [d.id for d in ranked["documents"]])
check("top_k", [d.id for d in ranker.run("cats", documents, top_k=1)["documents"]] == [ranked["documents"][0].id])
check("threshold", len(ranker.run("cats", documents, score_threshold=scores[1])["documents"]) == 2)

# A refusal is told by Jina's field "detail", of which the package makes its exception.
error = refused("unknown model", RuntimeError, lambda: JinaTextEmbedder(model="nobody", base_url=base_url + "/embeddings").run("x"))
check("unknown model", "nobody" in str(error), error)
error = refused("no such ranker", RuntimeError, lambda: JinaRanker(model="nobody", base_url=base_url + "/rerank").run("x", documents))
check("no such ranker", "nobody" in str(error), error)
report(f"jina-haystack {version('jina-haystack')}")
